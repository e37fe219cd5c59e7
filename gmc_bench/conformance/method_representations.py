"""Checks of where a network shows its limbs before and after they exchange information."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from gmc_bench.conformance.method_subject import (
    NETWORKS,
    TOLERANCE,
    CheckFailedError,
    PolicyInput,
    Subject,
    outputs_of,
    show_again,
)
from gmc_bench.nn.tap import (
    AFTER,
    BEFORE,
    Representations,
    offers_representations,
    watch_representations,
)


def check_representations(subject: Subject) -> str:
    """The taps, where a network has them, show what their names promise.

    They run once, for every real limb; `before` depends on the limb's own time-varying features
    and on those of no other limb; `after` depends on other limbs'; and the network goes on from
    what has passed them, each limb by itself after the second one.
    """
    networks = [getattr(subject.policy, name) for name in NETWORKS]
    if not any(offers_representations(network) for network in networks):
        return "not offered"
    chosen = _one_limb_each(subject.scene)
    found = []
    for name, network in zip(NETWORKS, networks, strict=True):
        found.append(_read(subject, name, subject.scene))
        _require_own_features_only(subject, name, chosen, found[-1])
        _require_in_the_way(subject, name, network, chosen)
    widths = [(item.before.shape[1], item.after.shape[1]) for item in found]
    texts = [f"{before} channels before, {after} after" for before, after in widths]
    return "; ".join(dict.fromkeys(texts))


def _one_limb_each(scene: PolicyInput) -> torch.Tensor:
    """Return (B, L) bool: one real limb of every environment, the torso in some."""
    chosen = torch.zeros_like(scene.tokens.limb_padding_mask)
    rows = torch.arange(len(chosen))
    chosen[rows, rows % scene.tokens.num_limbs] = True
    return chosen


def _read(subject: Subject, name: str, scene: PolicyInput) -> Representations:
    with watch_representations(getattr(subject.policy, name)) as latest:
        outputs_of(subject.policy, name, scene)
        return latest(scene.tokens)


def _require_own_features_only(
    subject: Subject, name: str, chosen: torch.Tensor, expected: Representations
) -> None:
    """Show other features of the chosen limbs, and look at what they and the others became."""
    scene = subject.scene
    other = show_again(np.random.default_rng(7), scene.tokens)
    dynamic = torch.where(chosen.unsqueeze(-1), other.dynamic, scene.tokens.dynamic)
    found = _read(subject, name, replace(scene, tokens=replace(other, dynamic=dynamic)))
    own = scene.tokens.packing.pack(chosen)
    before, after = _moved(found.before, expected.before), _moved(found.after, expected.after)
    if not (most := float(before[~own].max())) <= TOLERANCE:
        raise CheckFailedError(
            f"other features of one limb move {BEFORE!r} of the {name} for another limb, by "
            f"{most:.0e} of the largest; put it in front of all that limbs exchange"
        )
    if float(before[own].max()) <= TOLERANCE:
        raise CheckFailedError(
            f"other features of a limb do not move {BEFORE!r} of the {name} for this limb; put it "
            f"behind the embedding of the features"
        )
    if (most := float(after[~own].max())) <= TOLERANCE:
        raise CheckFailedError(
            f"other features of one limb move {AFTER!r} of the {name} by at most {most:.0e} of the "
            f"largest for any other limb; put it behind the last exchange"
        )


def _require_in_the_way(
    subject: Subject, name: str, network: nn.Module, chosen: torch.Tensor
) -> None:
    """Change what passes the taps for the chosen limbs, and look at the outputs."""
    scene = subject.scene
    own = scene.tokens.packing.pack(chosen)
    expected = scene.tokens.packing.pack(outputs_of(subject.policy, name, scene))
    for place in (BEFORE, AFTER):
        handle = getattr(network, place).register_forward_hook(_changing(scene, chosen))
        try:
            changed = outputs_of(subject.policy, name, scene)
        finally:
            handle.remove()
        moved = _moved(scene.tokens.packing.pack(changed), expected)
        if float(moved[own].max()) <= TOLERANCE:
            raise CheckFailedError(
                f"the {name}'s outputs do not depend on what passes {place!r}; go on with what it "
                f"returns"
            )
        if place == AFTER and not (most := float(moved[~own].max())) <= TOLERANCE:
            raise CheckFailedError(
                f"changing one limb's rows of {AFTER!r} moves the {name}'s outputs of another limb "
                f"by {most:.0e} of the largest; put it behind the last exchange"
            )


def _changing(scene: PolicyInput, chosen: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Return a hook that adds noise of their own size to the chosen limbs' rows."""
    own = scene.tokens.packing.pack(chosen)

    def change(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        mask = (chosen if output.dim() == 3 else own).unsqueeze(-1)
        return torch.where(mask, output + output.std() * torch.randn_like(output), output)

    return change


def _moved(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return each row's largest difference, (P,), relative to the largest expected number."""
    scale = expected.abs().max().clamp(min=1e-6)
    return (found - expected).abs().amax(dim=1) / scale
