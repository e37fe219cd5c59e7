"""Comparison of two ways to compute the same in single precision."""

from collections.abc import Mapping

import torch


def check_as_exact(
    found: Mapping[str, torch.Tensor],
    other: Mapping[str, torch.Tensor],
    exact: Mapping[str, torch.Tensor],
) -> None:
    """Check that `found` is as near to the numbers of double precision as `other` is."""
    for part, values in exact.items():
        if values.numel():
            errors = [(one[part] - values).abs().max() for one in (found, other)]
            assert errors[0] <= 4 * errors[1] + 1e-6 * values.abs().max(), part
