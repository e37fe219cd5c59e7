"""Policies: networks, observation statistics and token order as one thing that acts."""
