"""Checks that a network takes any layout of tokens, and what it must put out in all of them."""

import torch

from gmc_bench.conformance.method_subject import (
    NETWORKS,
    CheckFailedError,
    PolicyInput,
    Subject,
    call,
    gradients_of,
    locate,
    make_scene,
    outputs_of,
    perturb,
)
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.tokens.spec import TokenSpec

_JOINT_SLOTS = (1, 3)
"""Numbers of joint slots per limb; every other check has the usual two."""
_NUM_LIMBS = (5, 1, 2, 4, 3)
"""Limbs of as many bodies as the other checks have, among them a torso alone."""


def check_layouts(subject: Subject) -> str:
    """Limbs may have other numbers of joint slots, and a body may be a torso alone."""
    for joints in _JOINT_SLOTS:
        policy = perturb(subject.build(TokenSpec(max(_NUM_LIMBS), joints)))
        scene = make_scene(policy, num_limbs=_NUM_LIMBS)
        require_shapes(policy, scene)
        require_finite_outputs(policy, scene)
        for name in NETWORKS:
            outputs = call(policy, name, scene)[~scene.tokens.limb_padding_mask]
            require_finite_gradients(name, gradients_of(getattr(policy, name), outputs))
    return f"{' and '.join(map(str, _JOINT_SLOTS))} joint slots, bodies of 1 to {max(_NUM_LIMBS)}"


def require_shapes(policy: ActorCritic, scene: PolicyInput) -> None:
    """Raise unless actor and critic put out (B, L, num_outputs)."""
    for name, width in zip(NETWORKS, (policy.spec.actions_per_token, 1), strict=True):
        found = tuple(outputs_of(policy, name, scene).shape)
        expected = (len(scene.tokens), policy.spec.max_limbs, width)
        if found != expected:
            raise CheckFailedError(f"the {name} returned shape {found}, expected {expected}")


def require_finite_outputs(policy: ActorCritic, scene: PolicyInput) -> None:
    """Raise unless the outputs of real limbs are finite."""
    tokens = scene.tokens
    for name in NETWORKS:
        found = outputs_of(policy, name, scene)
        wrong = ~found.isfinite() & ~tokens.limb_padding_mask.unsqueeze(-1)
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            raise CheckFailedError(
                f"the {name}'s outputs must be finite: {locate(tokens, place)} is "
                f"{float(found[place])}"
            )


def require_finite_gradients(name: str, gradients: dict[str, torch.Tensor]) -> None:
    """Raise unless the gradients of a network's parameters are finite."""
    for key, gradient in gradients.items():
        if not gradient.isfinite().all():
            raise CheckFailedError(
                f"the gradient of the {name}'s {key!r} has {int((~gradient.isfinite()).sum())} "
                f"numbers that are not finite"
            )
