"""Experiments on a set of two small bodies."""

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tiny_set):
    """Work in an empty folder; the only imported set is `tiny`."""
