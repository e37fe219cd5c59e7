"""Quadruped policies outside training: one file to carry, an adapter, simulated trials at 50 Hz."""
