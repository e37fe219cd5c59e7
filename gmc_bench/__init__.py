"""gmc-bench: a benchmark suite for morphology controllers."""

__version__ = "0.1.0"
