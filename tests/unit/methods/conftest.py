from pathlib import Path

import pytest


@pytest.fixture
def repository() -> Path:
    """Root of the checkout."""
    return Path(__file__).parents[3]
