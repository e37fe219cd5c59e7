"""Experiments: what to run, run it, and what it left behind."""
