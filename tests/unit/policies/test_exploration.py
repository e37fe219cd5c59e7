"""Actions drawn for training, and what a GPU captures of it."""

import copy
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.per_body import PerBody, fixed_weights
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.policies import exploration
from gmc_bench.policies.exploration import Explorer, explore
from gmc_bench.tokens.spec import TokenSpec

SPEC, LIMBS = TokenSpec(7), (7, 3, 1, 5)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
SHARED = [
    name for name in METHODS.names() if not METHODS.get(name).capabilities.per_body
]  # a network per body looks whether rows are in order, for which it waits


def make(name, device="cpu"):
    """Return the policy of a method, and what eight rows show at four steps."""
    torch.manual_seed(0)
    method = METHODS.get(name)
    model = ActorCritic(method, method.make_config("lite"), SPEC, num_bodies=len(LIMBS)).eval()
    first = random_tokens(np.random.default_rng(1), SPEC, LIMBS, 8)
    table, index = first.table.to(device), first.morphology_index
    shown = torch.randn(4, *first.dynamic.shape).to(device)
    steps = [TokenBatch(table, index.to(device), dynamic) for dynamic in shown]
    return model.to(device), steps, index.numpy()


def noise_of(tokens, step):
    shape = tokens.action_padding_mask.shape
    return torch.randn(shape, generator=torch.Generator().manual_seed(step)).to(
        tokens.dynamic.device
    )


def test_actions_are_perturbed_means_with_their_density():
    model, (tokens, *_), bodies = make("smr")
    state, noise = model.initial_state(8), noise_of(tokens, 0)
    with torch.no_grad():
        actions, log_prob, after = Explorer(model)(tokens, noise, state, bodies)
        distribution, expected = model.step(tokens, state)
    real = ~tokens.action_padding_mask
    assert torch.equal(actions[real], (distribution.mean + 0.9 * noise)[real])
    assert not actions[~real].any()
    assert torch.equal(log_prob, distribution.log_prob(actions))
    assert torch.equal(after, model.remember(expected, actions))
    assert after[..., -actions.shape[-1] :].any()


def test_a_cpu_captures_nothing():
    model, steps, bodies = make("recmorph")
    explorer, state = Explorer(model), model.initial_state(8)
    with torch.no_grad():
        for number, tokens in enumerate(steps):
            found = explorer(tokens, noise_of(tokens, number), state, bodies)
            expected = explore(model, tokens, noise_of(tokens, number), state)
            assert torch.equal(found.actions, expected.actions)
    assert explorer.captures == explorer.replays == 0


@pytest.mark.parametrize("name", ["recmorph", "nervenet"])
def test_each_step_shows_its_own_height_map(name, monkeypatch):
    """With a stand-in for a captured graph: the function, called again."""
    monkeypatch.setattr(exploration, "CapturedCall", lambda function, _: function)
    method, spec = METHODS.get(name), TokenSpec(7, num_heights=3)
    model = ActorCritic(method, method.make_config("lite"), spec).eval()
    tokens = random_tokens(np.random.default_rng(1), spec, LIMBS, 8)
    explorer, state, noise = Explorer(model), model.initial_state(8), noise_of(tokens, 0)
    explorer._possible = True
    bodies = tokens.morphology_index.numpy()
    with torch.no_grad():
        for _ in range(3):
            tokens = replace(tokens, height_map=torch.randn(8, 3))
            found = explorer(tokens, noise, state, bodies)
            expected = explore(model, tokens, noise, state)
            torch.testing.assert_close(found.actions, expected.actions, rtol=0, atol=1e-6)
    assert explorer.captures == 1
    assert explorer.replays >= 2


class NoCopies(TorchDispatchMode):
    """Refuse copies from the CPU to the device, which end a capture."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.is_meta:
            assert all(one.is_meta or one.ndim == 0 for one in given), f"{func} copies"
        return found


def moved(value, seen):
    """Return tensors, and what holds them, on the device `meta`, which has shapes alone."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, (tuple, list)):
        parts = [moved(part, seen) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: moved(part, seen) for key, part in value.items()}
    if is_dataclass(value) and hasattr(value, "__dict__"):
        if id(value) not in seen:
            seen[id(value)] = found = copy.copy(value)
            of_shapes = ("batch_sizes", "_grid")  # on the CPU whatever the device is
            names = [name for name in vars(value) if name not in of_shapes]
            vars(found).update({name: moved(getattr(value, name), seen) for name in names})
        return seen[id(value)]
    return value


@pytest.mark.parametrize("name", SHARED)
def test_networks_neither_wait_for_a_device_nor_copy_to_it_once_bodies_are_known(name):
    """Run on a device without numbers: what a capture would refuse, it cannot do either."""
    model, (first, second, *_), _ = make(name)
    state, noise = model.initial_state(8), noise_of(first, 0)
    first = replace(first, padded=model.padded_rows)
    with fixed_weights(model):
        explore(model, first, noise, state)
        seen = {}
        first = moved(first, seen)
        for part in model.modules():
            if isinstance(part, PerBody):
                part._kept = moved(part._kept, seen)
        model.to("meta")
        noise, state, dynamic = noise.to("meta"), state.to("meta"), second.dynamic.to("meta")
        known = first.showing(dynamic)
        if model.padded_rows:  # what is known may be of other bodies
            known = TokenBatch(first.table, first.morphology_index, dynamic, padded=True)
            _ = known.packing  # made once in a process
        with NoCopies():
            found = explore(model, known, noise, state)
    assert found.actions.shape == noise.shape
    assert found.log_prob.shape == (8,)


@pytest.mark.parametrize("name", ["bot", "metamorph-star", "recmorph", "recmorph-bimamba2", "swat"])
def test_gradients_of_padded_rows_neither_wait_for_a_device_nor_copy_to_it(name):
    model, (tokens, *_), _ = make(name)
    model.train()
    _ = model.distribution(tokens), model.value(tokens)  # from here on, the bodies are known
    seen = {}
    tokens = moved(replace(tokens, padded=True), seen)
    for part in model.modules():
        for kept in ("_kept", "_trees"):
            if hasattr(part, kept):
                setattr(part, kept, moved(getattr(part, kept), seen))
    model.to("meta").zero_grad()
    _ = tokens.packing
    noise = noise_of(tokens, 0).to("meta")
    with NoCopies():
        loss = model.distribution(tokens).log_prob(noise).sum() + model.value(tokens).sum()
        loss.backward()
    assert all(part.grad.is_meta for part in model.parameters())


@pytest.mark.parametrize("name", SHARED)
def test_padding_among_the_rows_changes_nothing_where_networks_know_it(name):
    model, (tokens, *_), _ = make(name)
    if not model.padded_rows:
        assert name in {
            "metamorph",
            "mi-hgnn",
            "nervenet",
            "recmorph-bigru",
            "recmorph-bilstm",
            "smr",
        }
        return
    model.double().train()
    tokens = replace(
        tokens,
        dynamic=tokens.dynamic.double(),
        table=replace(tokens.table, context=tokens.table.context.double()),
    )
    found = []
    for padded in (False, True):
        model.zero_grad()
        shown = replace(tokens, padded=padded)
        density = model.distribution(shown).log_prob(noise_of(tokens, 0).double())
        value = model.value(shown)
        (density.sum() + value.sum()).backward()
        found.append([density, value, *(part.grad for part in model.parameters())])
    for packed, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, packed, rtol=0, atol=1e-9)


def test_other_features_of_the_same_bodies_share_what_is_known_of_the_bodies():
    _, (first, second, *_), _ = make("recmorph")
    calls = []

    def count(tokens, factor):
        calls.append(factor)
        return factor * int(tokens.num_limbs.sum())

    packing = first.packing
    assert [first.once(count, 2), first.once(count, 2), first.once(count, 3)] == [80, 80, 120]
    assert not torch.equal(first.features, second.features)
    other = first.showing(second.dynamic)
    assert other.packing is packing
    assert other.once(count, 2) == 80
    assert calls == [2, 3]
    assert torch.equal(other.features, second.features)
    assert torch.equal(other.packed_features, second.packed_features)
    assert {field.name for field in fields(other)} <= set(vars(other))


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SHARED)
def test_a_replayed_graph_gives_the_numbers_of_single_launches(name, precision):
    model, steps, bodies = make(name, "cuda")
    model.precision = precision
    explorer, start = Explorer(model), model.initial_state(8)
    state = expected_state = start
    with fixed_weights(model):
        for number, tokens in enumerate(steps):
            noise = noise_of(tokens, number)
            expected = explore(model, tokens, noise, expected_state)
            found = explorer(tokens, noise, state, bodies)
            # Sums over neighbours have no fixed order on a GPU.
            limits = {"rtol": 1e-2, "atol": 1e-2} if precision == "bfloat16" else {}
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, **limits)
            state, expected_state = found.state, expected.state.clone()
    if model.draws_random_numbers:
        assert explorer.captures == 0
    else:
        assert (explorer.captures, explorer.replays) == (1, 4 if model.padded_rows else 3)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("name", ["recmorph", "modumorph", "nervenet"])
def test_graphs_are_captured_anew_where_they_must(name):
    model, steps, bodies = make(name, "cuda")
    explorer, state = Explorer(model), model.initial_state(8)
    others = bodies[::-1].copy()
    captures = []
    with fixed_weights(model):
        for shown, tokens in zip([bodies, bodies, others, others], steps, strict=True):
            index = torch.from_numpy(shown.copy()).cuda()
            tokens = TokenBatch(tokens.table, index, tokens.dynamic)
            noise = noise_of(tokens, 0)
            found = explorer(tokens, noise, state, shown)
            expected = explore(model, tokens, noise, state)
            torch.testing.assert_close(found.actions, expected.actions, rtol=1e-5, atol=1e-6)
            captures.append(explorer.captures)
    explorer.forget()
    with torch.no_grad():
        for part in model.parameters():
            part.mul_(1.5)
    with fixed_weights(model):
        found = explorer(tokens, noise, state, others)
        expected = explore(model, tokens, noise, state)
        torch.testing.assert_close(found.actions, expected.actions, rtol=1e-5, atol=1e-6)
    assert captures == ([1, 1, 1, 1] if model.padded_rows else [0, 1, 1, 2])
    assert explorer.captures == {"recmorph": 1, "modumorph": 2, "nervenet": 2}[name]
