"""Robots as limb trees with joints and actuators, without any engine."""

from gmc_bench.bodies.schema import (
    Actuator,
    Geom,
    Inertia,
    Joint,
    Limb,
    Loop,
    Morphology,
    MorphologySet,
)

__all__ = ["Actuator", "Geom", "Inertia", "Joint", "Limb", "Loop", "Morphology", "MorphologySet"]
