"""Weights and statistics as one set of named arrays."""

import numpy as np
import pytest
import torch

from gmc_bench.core.errors import CheckpointError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.policies.bound import token_table
from gmc_bench.policies.tensors import decode_tensors, encode_tensors


def test_what_is_saved_is_loaded(make_trained):
    trained, other = make_trained(seed=0), make_trained(seed=1)
    tensors = trained.policy.tensors()
    other.policy.set_tensors(tensors, "x")
    found = other.policy.tensors()
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        np.testing.assert_array_equal(found[name], value)


def test_arrays_are_stored_as_they_read_whatever_their_layout_in_memory_and_order():
    whole = np.arange(24.0).reshape(2, 3, 4)
    arrays = {"turned": whole.T, "part": whole[:, 1:, ::2], "backwards": whole[0, 0, ::-1]}
    data = encode_tensors(arrays)
    found = decode_tensors(data, "x")
    assert found.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(found[name], values)
    assert encode_tensors(dict(reversed(arrays.items()))) == data


def test_the_loaded_policy_does_not_share_memory(make_trained):
    trained, other = make_trained(seed=0), make_trained(seed=1)
    tensors = trained.policy.tensors()
    other.policy.set_tensors(tensors, "x")
    with torch.no_grad():
        for parameter in trained.model.parameters():
            parameter.zero_()
    trained.normalizer.dynamic.mean[:] = trained.normalizer.context_mean[:] = 7.0
    assert any(p.abs().sum() > 0 for p in other.model.parameters())
    assert not (other.normalizer.dynamic.mean == 7.0).any()
    assert not (other.normalizer.context_mean == 7.0).any()


def test_tensors_are_copies(trained):
    """Kept ones stay what they were while training goes on, and may be changed."""
    policy, before = trained.policy, trained.policy.to_bytes()
    for values in policy.tensors().values():
        values[...] = 7
    assert policy.to_bytes() == before


def test_another_size_is_refused(make_trained):
    trained, other = make_trained(width=8), make_trained(width=16)
    tensors = trained.policy.tensors()
    tensors["normalizer.dynamic_mean"] = tensors["normalizer.dynamic_mean"][:-1]
    with pytest.raises(CheckpointError, match="the file holds the weights of another method"):
        other.policy.set_tensors(tensors, "the file")


def test_another_name_is_refused(trained):
    tensors = trained.policy.tensors()
    tensors["model.extra"] = np.zeros(1)
    with pytest.raises(CheckpointError, match="x holds the weights of another method or other set"):
        trained.policy.set_tensors(tensors, "x")


def test_the_token_table_is_normalised_and_zero_in_padding(trained):
    core = EnvironmentCore(trained.task, trained.bodies, 1, token_spec=trained.model.spec)
    table = token_table(core.table, trained.normalizer)
    real = ~core.table.limb_padding_mask
    raw = core.table.context
    mean = raw[real].astype(np.float64).mean(axis=0)
    scale = np.sqrt(raw[real].astype(np.float64).var(axis=0) + 1e-8)
    expected = np.clip((raw[real] - mean) / scale, -10, 10)
    np.testing.assert_allclose(table.context.numpy()[real], expected, atol=1e-4)
    assert (table.context.numpy()[~real] == 0).all()
    low, high = raw[real].min(axis=0), raw[real].max(axis=0)
    varying = high - low > 1e-3
    scaled = table.scaled_context.numpy()
    middle, half = (low + high) / 2, (high - low) / 2
    expected = ((raw[real] - middle) / np.where(varying, half, 1.0))[:, varying]
    np.testing.assert_allclose(scaled[real][:, varying], expected, atol=1e-4)
    assert (scaled[~real] == 0).all()
    assert table.num_limbs.tolist() == [3, 5, 5]
    assert table.parents.dtype == torch.int64
