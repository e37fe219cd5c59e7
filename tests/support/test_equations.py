"""What the comparison of gradients with slopes lets through, and what it does not."""

import numpy as np
import pytest
import torch

from tests.support.equations import assert_slopes


def test_an_error_in_any_entry_of_a_gradient_shows():
    """The gradient of the sum of the cubes of w, and the same with one of 1,000 entries off."""
    weights = np.random.default_rng(1).standard_normal((40, 25))
    before, exact = weights.copy(), torch.from_numpy(3 * weights**2)

    def compare(gradient):
        assert_slopes({"w": gradient}, {"w": weights}, lambda: float(np.sum(weights**3)))
        np.testing.assert_array_equal(weights, before)

    compare(exact)
    for entry in range(weights.size):
        wrong = exact.clone()
        wrong.view(-1)[entry] += 0.01
        with pytest.raises(AssertionError, match="w"):
            compare(wrong)
    with pytest.raises(AssertionError, match="w"):
        compare(exact.flip(0))
    with pytest.raises(AssertionError, match="w"):
        compare(None)
