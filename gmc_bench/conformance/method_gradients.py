"""Checks of gradients: every parameter gets one, a true one, and networks do nothing beside it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gmc_bench.conformance.dropout import without_dropout
from gmc_bench.conformance.method_layouts import require_finite_gradients
from gmc_bench.conformance.method_subject import (
    NETWORKS,
    CheckFailedError,
    PolicyInput,
    Subject,
    call,
    gradients_of,
    make_scene,
    outputs_of,
    perturb,
)
from gmc_bench.methods.policy import ActorCritic

DRAWS = 4
"""Batches in which a parameter may get its gradient, and height maps that may change an output: a
single one may leave a ReLU shut."""
_STEP, _TOLERANCE = 1e-7, 1e-2
"""Of finite differences in float64, relative to the size of each parameter tensor and to the
derivative: rounding leaves some 1e-16 / 1e-7, curvature less. One ReLU of a million that opens
within the step leaves up to 1e-3."""
_COARSE_STEP, _COARSE_TOLERANCE = 1e-3, 0.05
"""Likewise in float32, where rounding and ReLUs leave up to 1e-2."""
_ROUNDING = 0.05
"""Relative difference of a tensor's gradients in float32 and float64: rounding leaves 1e-5, a ReLU
that it opens up to 1e-2."""
_SMALL = 1e-3
"""Gradients below this share of the network's largest one are held against that share."""
_FEWER_DIGITS = (torch.float32, torch.float16, torch.bfloat16)


def check_gradients(subject: Subject) -> str:
    """Every trainable parameter gets a finite gradient: that of the outputs, and of nothing else.

    The weights of one network change nothing in the other, which is trained at the same time.
    In training mode, but without dropout, a network leaves parameters and their gradients alone
    until the loss asks for them. The gradients are then those of the same network in float64, where
    they agree with finite differences; what does not compute in float64 is held against coarser
    ones. Methods that declare surrogate gradients are not held to that.
    """
    count = require_gradients(subject.policy)
    if not subject.method.trainable:
        return "nothing to train"
    surrogate = subject.method.capabilities.surrogate_gradients
    policy, exact = _in_training(subject), _in_training(subject).double()
    scene, wide, coarse = subject.scene, subject.scene.double(), False
    with torch.random.fork_rng(devices=[]):
        _require_apart(_in_training(subject).eval(), scene)
        for name in NETWORKS:
            found = _gradients(policy, name, scene)
            if surrogate:
                continue
            expected = _in_float64(exact, name, wide)
            if expected is None:
                coarse = True
                steps = (_COARSE_STEP, _COARSE_TOLERANCE)
                _compare_differences(policy, name, scene, found.values, *steps)
                continue
            steps = (_STEP, _TOLERANCE)
            _compare_differences(exact, name, wide, expected.values, *steps)
            if not found.drawn:  # random numbers in float64 are others
                _compare_gradients(name, found.values, expected.values)
    if surrogate:
        return f"{count} tensors; not compared with the outputs, as declared"
    return f"{count} tensors" + ("; compared in float32, roughly" if coarse else "")


def require_gradients(policy: ActorCritic) -> int:
    """Raise unless every tensor gets a gradient in some batch; return how many there are."""
    count = 0
    for name in NETWORKS if policy.method.trainable else ():
        network = getattr(policy, name)
        names = [key for key, value in network.named_parameters() if value.requires_grad]
        if not names:
            raise CheckFailedError(
                f"the {name} has no trainable parameter, but actor and critic are both trained; "
                f"give it one, or set 'trainable=False' for a method without anything to train"
            )
        without = set(names)
        for seed in range(DRAWS):
            scene = make_scene(policy, seed)
            outputs = call(policy, name, scene)[~scene.tokens.limb_padding_mask]
            gradients = gradients_of(network, outputs)
            require_finite_gradients(name, gradients)
            without -= {key for key, gradient in gradients.items() if gradient.any()}
            if not without:
                break
        if without:
            raise CheckFailedError(
                f"{len(without)} of {len(names)} parameter tensors of the {name} get no gradient "
                f"in {DRAWS} random batches: {', '.join(sorted(without)[:5])}"
            )
        count += len(names)
    return count


def _require_apart(policy: ActorCritic, scene: PolicyInput) -> None:
    """Raise if a network uses weights of the other one, registered as its own or not."""
    real = ~scene.tokens.limb_padding_mask
    for name, other in (NETWORKS, NETWORKS[::-1]):
        before = outputs_of(policy, name, scene)[real]
        perturb(getattr(policy, other))
        if not torch.equal(outputs_of(policy, name, scene)[real], before):
            raise CheckFailedError(
                f"the {name}'s outputs change with the weights of the {other}; make all modules "
                f"anew in the builder, because both networks are trained at the same time"
            )


def _in_training(subject: Subject) -> ActorCritic:
    policy = subject.build()
    policy.load_state_dict(subject.policy.state_dict())
    return policy.train()


@dataclass
class _Gradients:
    """Gradients by name, as an update makes them."""

    values: dict[str, torch.Tensor]
    drawn: bool
    """Whether the network drew random numbers."""
    narrowed: bool
    """Whether it rounded float64 to fewer digits."""


class _WatchRounding(TorchFunctionMode):
    """Notices whether functions of float64 return fewer digits."""

    narrowed = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.dtype in _FEWER_DIGITS:
            given = (item.dtype for item in args if isinstance(item, torch.Tensor))
            self.narrowed = self.narrowed or torch.float64 in given
        return found


def _in_float64(policy: ActorCritic, name: str, scene: PolicyInput) -> _Gradients | None:
    """Return gradients in float64; `None` for a network that does not compute in it throughout."""
    try:
        found = _gradients(policy, name, scene)
    except Exception:  # noqa: BLE001 - no method has to take float64
        return None
    return None if found.narrowed else found


def _gradients(policy: ActorCritic, name: str, scene: PolicyInput) -> _Gradients:
    """Run a network in training mode forward and back.

    Raises:
        CheckFailedError: it changes parameters, buffers or gradients itself.
    """
    network = getattr(policy, name)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    torch.manual_seed(1)
    start = torch.get_rng_state()
    watch = _WatchRounding()
    with watch if scene.tokens.dynamic.dtype == torch.float64 else nullcontext():
        total = _total(policy, name, scene)
    drawn = not torch.equal(start, torch.get_rng_state())
    _require_unchanged(policy, name, before, "a forward pass")
    for key, value in network.named_parameters():
        if value.grad is not None:
            raise CheckFailedError(
                f"a forward pass of the {name} in training mode leaves a gradient in {key!r}, "
                f"expected none before the loss; leave losses and backward passes to the protocol"
            )
    total.backward()  # type: ignore[no-untyped-call]
    _require_unchanged(policy, name, before, "a backward pass")
    found = {key: value.grad for key, value in network.named_parameters() if value.grad is not None}
    network.zero_grad()
    return _Gradients(found, drawn, watch.narrowed)


def _require_unchanged(
    policy: ActorCritic, name: str, before: Mapping[str, torch.Tensor], what: str
) -> None:
    for key, value in getattr(policy, name).state_dict().items():
        if not torch.equal(value, before[key]):
            raise CheckFailedError(
                f"{what} of the {name} in training mode changes {key!r}; what a network holds may "
                f"change by the protocol's optimiser alone"
            )


def _total(policy: ActorCritic, name: str, scene: PolicyInput) -> torch.Tensor:
    """Return the sum, (), of the outputs of real limbs with the same random weights every time."""
    with without_dropout(policy) if policy.draws_random_numbers else nullcontext():
        outputs = call(policy, name, scene)[~scene.tokens.limb_padding_mask].double()
    generator = torch.Generator().manual_seed(2)
    return (outputs * torch.randn(outputs.shape, generator=generator).double()).sum()


@torch.no_grad()
def _compare_differences(
    policy: ActorCritic,
    name: str,
    scene: PolicyInput,
    gradients: Mapping[str, torch.Tensor],
    step: float,
    tolerance: float,
) -> None:
    """Hold gradients against a finite difference of the outputs.

    The parameters go along a random direction, turned in every tensor so that the outputs' sum
    rises: contributions of tensors cannot cancel.

    Args:
        policy: in training mode; its parameters are as before afterwards.
        name: of the network.
        scene: what it sees.
        gradients: of `_total`, by name.
        step: along the direction, relative to the size of each tensor.
        tolerance: relative difference that is allowed.
    """
    weights = {key: getattr(policy, name).get_parameter(key) for key in gradients}
    before = {key: value.clone() for key, value in weights.items()}
    directions, expected = {}, 0.0
    for key, value in weights.items():
        direction = torch.randn_like(value) * value.square().mean().sqrt()
        slope = float((direction.double() * gradients[key].double()).sum())
        directions[key] = direction if slope > 0.0 else -direction
        expected += abs(slope)
    totals = []
    for signed in (step, -step):
        for key, value in weights.items():
            torch.add(before[key], directions[key], alpha=signed, out=value)
        torch.manual_seed(1)
        totals.append(float(_total(policy, name, scene)))
    for key, value in weights.items():
        value.copy_(before[key])
    found = (totals[0] - totals[1]) / (2.0 * step)
    if not abs(found - expected) <= tolerance * expected:
        raise CheckFailedError(
            f"the gradients of the {name} promise that its outputs rise by {expected:.6g} along a "
            f"random direction, but they rise by {found:.6g}; look for a hook, a wrong backward "
            f"function or a detached part, or declare Capabilities(surrogate_gradients=True)"
        )


def _compare_gradients(
    name: str, found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> None:
    """Hold the gradients in float32, which special code may compute, against those in float64."""
    largest = max(float(gradient.norm()) for gradient in expected.values())
    for key, gradient in expected.items():
        other = found[key].double() if key in found else torch.zeros_like(gradient)
        error, size = float((other - gradient).norm()), float(gradient.norm())
        if not error <= _ROUNDING * max(size, _SMALL * largest):
            raise CheckFailedError(
                f"in training mode the gradient of the {name}'s {key!r} differs by {error:.1e} "
                f"from that of the same network in float64, which has a norm of {size:.1e}; "
                f"correct the backward function"
            )
