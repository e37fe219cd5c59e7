"""Batched simulation of unlike bodies; knows nothing of tasks."""
