"""Scoring of trained policies."""
