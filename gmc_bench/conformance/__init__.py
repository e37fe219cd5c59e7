"""Conformance checks of methods, with the made-up bodies and token batches that they need."""
