"""Devices of this machine that runs can use."""

from gmc_bench.core.device import require_known_device
from gmc_bench.core.errors import ConfigError


def check_device(name: str, *, here: bool = True) -> str:
    """Return the name of a device that runs can use.

    Args:
        name: of the device.
        here: whether this machine must have it. Launchers on other machines show each run its
            own GPU alone, which has the number 0.

    Raises:
        ConfigError: no such device, or a later one than the first of another machine.
    """
    import torch

    require_known_device(name)
    try:
        device = torch.device(name)
        if here:
            torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"the device {name!r} cannot be used here ({str(error).splitlines()[0]}); "
            f"use --device cpu"
        ) from error
    if not here and device.index:
        raise ConfigError(
            f"the launcher chooses the GPU of each run, but --device names {name!r}; "
            f"use --device {device.type}"
        )
    return str(device)


def device_here(name: str) -> str:
    """Return the device of a run, or the CPU where this machine does not have it."""
    try:
        return check_device(name)
    except ConfigError:
        return "cpu"


def gpu_name(device: str) -> str | None:
    """Return the name of the GPU that a device is, `None` where it is the CPU.

    Args:
        device: as `check_device` returns it.
    """
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else None
