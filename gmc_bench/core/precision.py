"""Number formats of the networks' matrix products."""

from typing import Literal

from gmc_bench.core.errors import ConfigError

Precision = Literal["float32", "tf32", "bfloat16"]
"""`tf32` is float32 whose products, on GPUs, take ten bits of each mantissa."""


def check_precision(precision: Precision, device: str) -> None:
    """Check that a device supports a number format.

    Raises:
        ConfigError: it does not.
    """
    if precision == "tf32" and not device.startswith("cuda"):
        raise ConfigError(
            f"the precision 'tf32' is one of GPUs, but the device is {device!r}; use the precision "
            f"float32 or bfloat16, or the device cuda"
        )
