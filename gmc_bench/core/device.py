"""Devices that networks can run on."""

from gmc_bench.core.errors import ConfigError


def require_known_device(name: str) -> None:
    """Check that a device is of a kind that networks run on here; this machine may lack it.

    Args:
        name: of the device, as torch names it.

    Raises:
        ConfigError: it is of another kind.
    """
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"the device {name!r} is not supported; use --device cpu or cuda")
