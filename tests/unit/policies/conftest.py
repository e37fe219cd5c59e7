"""The untrained policy of the evaluation tests."""

from tests.unit.evaluation.conftest import make_trained, trained

__all__ = ["make_trained", "trained"]
