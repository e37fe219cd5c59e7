"""Taps into a network: limbs before and after they exchange information."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.nn.tokens import TokenBatch

BEFORE = "before_communication"
"""Attribute that every limb's own representation passes, before limbs exchange anything."""
AFTER = "after_communication"
"""Attribute that representations pass after the last exchange, before height map and decoder."""


class Tap(nn.Module):
    """A place to look at: returns its input, and has no parameters.

    Shapes:
        (P, width) laid out by `tokens.packing`, or (B, L, width) -> the same tensor
    """

    def forward(self, representations: torch.Tensor) -> torch.Tensor:
        """Return the representations."""
        return representations


@dataclass(frozen=True)
class Representations:
    """What a network made of every real limb.

    Args:
        before: (P, W1) float32, of each limb on its own; rows as in `tokens.packing`.
        after: (P, W2) float32, once limbs have exchanged information for the last time.
    """

    before: torch.Tensor
    after: torch.Tensor


def offers_representations(network: nn.Module) -> bool:
    """Say whether a network has at least one of the two taps."""
    return any(isinstance(getattr(network, name, None), nn.Module) for name in (BEFORE, AFTER))


def limb_rows(representations: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
    """Return what passed a tap with one row per real limb.

    Args:
        representations: (P, W) laid out by `tokens.packing`, or (B, L, W) with anything in padding.
        tokens: what the network was given.

    Returns:
        (P, W).

    Raises:
        PluginError: another shape.
    """
    shape, packing = tuple(representations.shape), tokens.packing
    if len(shape) == 3 and shape[:2] == packing.shape:
        return packing.pack(representations)
    if len(shape) == 2 and shape[0] == packing.num_rows:
        return representations
    raise PluginError(
        f"limb representations have the shape {shape}, expected ({packing.num_rows}, width) or "
        f"({packing.shape[0]}, {packing.shape[1]}, width); pass all real limbs to a tap at once"
    )


@contextmanager
def watch_representations(
    network: nn.Module,
) -> Iterator[Callable[[TokenBatch], Representations]]:
    """Look at every forward pass of a network within the block.

    Args:
        network: of a method with taps.

    Returns:
        A function from the tokens of the latest forward pass to its representations; to be called
        after each pass.

    Raises:
        ConfigError: the network has no taps.
        PluginError: it has one of the two only; raised by the function: a tap did not run exactly
            once, or its input is not one row per limb.
    """
    seen: dict[str, list[torch.Tensor]] = {BEFORE: [], AFTER: []}
    handles = [
        tap.register_forward_hook(lambda _module, _inputs, output, at=name: seen[at].append(output))
        for name, tap in _taps(network).items()
    ]

    def latest(tokens: TokenBatch) -> Representations:
        found = {}
        for name, outputs in seen.items():
            if len(outputs) != 1:
                raise PluginError(
                    f"{name!r} of the network {type(network).__name__} ran {len(outputs)} times in "
                    f"a forward pass, expected once; pass all real limbs to it at once"
                )
            found[name] = limb_rows(outputs.pop(), tokens).float()
        return Representations(found[BEFORE], found[AFTER])

    try:
        yield latest
    finally:
        for handle in handles:
            handle.remove()


def _taps(network: nn.Module) -> dict[str, nn.Module]:
    """Return both taps by name."""
    found = {name: getattr(network, name, None) for name in (BEFORE, AFTER)}
    taps = {name: tap for name, tap in found.items() if isinstance(tap, nn.Module)}
    if not taps:
        raise ConfigError(
            f"the network {type(network).__name__} shows no limbs before and after they exchange "
            f"information; choose a method that has {BEFORE!r} and {AFTER!r}, "
            f"see docs/add-your-method.md"
        )
    if len(taps) < len(found):
        (missing,) = found.keys() - taps.keys()
        raise PluginError(
            f"the network {type(network).__name__} has only one of {BEFORE!r} and {AFTER!r}; "
            f"add the submodule {missing!r}, a `gmc_bench.nn.Tap`, too"
        )
    return taps
