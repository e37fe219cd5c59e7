"""Arithmetic of vectors in three dimensions, as tuples."""

from gmc_bench.core.types import Vec3


def plus(first: Vec3, second: Vec3) -> Vec3:
    """Return the sum."""
    return (first[0] + second[0], first[1] + second[1], first[2] + second[2])


def minus(first: Vec3, second: Vec3) -> Vec3:
    """Return the difference."""
    return (first[0] - second[0], first[1] - second[1], first[2] - second[2])


def times(vector: Vec3, factor: float) -> Vec3:
    """Return a multiple."""
    return (vector[0] * factor, vector[1] * factor, vector[2] * factor)
