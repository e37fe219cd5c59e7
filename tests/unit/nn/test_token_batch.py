from dataclasses import replace

import numpy as np
import torch

from gmc_bench.conformance.tokens import close_loops, random_tokens, take_bodies
from gmc_bench.nn import TokenBatch
from gmc_bench.nn.tokens import TokenTable
from gmc_bench.tokens import TokenSpec
from gmc_bench.tokens.serialization import Serialization

SPEC = TokenSpec(4)


def numbered_tokens() -> TokenBatch:
    """Two bodies whose features can be told apart by value: context 100 + i, dynamic i."""
    tokens = random_tokens(np.random.default_rng(0), SPEC, (2, 4), batch_size=3)
    tokens.table.context[:] = 100 + torch.arange(35.0)
    dynamic = torch.arange(17.0).expand(3, 4, 17).clone()
    return TokenBatch(tokens.table, torch.tensor([1, 0, 1]), dynamic)


def test_features_stand_where_the_layout_says():
    features = numbered_tokens().features
    assert features.shape == (3, 4, 52)
    names = {"body_xpos": [0, 1, 2], "body_pos": [100, 101, 102], "qpos/0": [13], "gear/1": [134]}
    for name, expected in names.items():
        group = SPEC.slice(name)
        assert features[1, 1, group.start : group.stop].tolist() == expected


def test_packed_features_are_the_features_of_the_real_limbs():
    tokens = random_tokens(np.random.default_rng(1), SPEC, (2, 4, 3), batch_size=7)
    assert tokens.packed_features.shape == (int(tokens.num_limbs.sum()), 52)
    assert torch.equal(tokens.packed_features, tokens.packing.pack(tokens.features))


def test_packing_is_made_once_for_all_networks():
    tokens = numbered_tokens()
    assert tokens.packing is tokens.packing
    assert tokens.packed_features is tokens.packed_features
    assert tokens.packing.shape == (3, 4)


def test_other_features_are_shown_with_what_is_known_of_their_bodies():
    tokens = random_tokens(np.random.default_rng(1), SPEC, (2, 4, 3), batch_size=4)
    assert len(tokens.features) == 4
    assert len(tokens.packed_features) == tokens.packing.num_rows
    later = tokens.showing(tokens.dynamic + 1.0)
    fresh = TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic + 1.0)
    assert later.packing is tokens.packing
    assert torch.equal(later.features, fresh.features)
    assert torch.equal(later.packed_features, fresh.packed_features)


def test_what_was_worked_out_is_that_of_the_function_and_its_arguments():
    tokens, calls = numbered_tokens(), []

    def limbs_times(batch, factor):
        calls.append(factor)
        return factor * batch.num_limbs

    for factor in (2, 3, 2):
        found = tokens.once(limbs_times, factor)
        assert found.tolist() == [4 * factor, 2 * factor, 4 * factor]
    assert calls == [2, 3]
    assert tokens.once(len) == 3


def test_features_have_the_type_of_what_varies():
    tokens = random_tokens(np.random.default_rng(1), SPEC, (2, 4, 3), batch_size=4)
    double = TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic.double())
    assert torch.equal(double.features, tokens.features.double())


def looped_table() -> TokenTable:
    """Bodies of 4, 3 and 4 limbs; the first has two loops, the last has one."""
    table = random_tokens(np.random.default_rng(0), SPEC, (4, 3, 4), 3).table
    parents = torch.tensor([[-1, 0, 0, 2], [-1, 0, 1, -2], [-1, 0, 1, 2]])
    return close_loops(replace(table, parents=parents), {0: [(1, 2), (1, 3)], 2: [(0, 3)]})


def test_edges_are_the_joints_of_the_tree_and_then_the_loops():
    index = torch.tensor([2, 1, 0, 0])
    tokens = TokenBatch(looped_table(), index, torch.zeros(4, 4, 17))
    places = tokens.packing.slots[tokens.packed_edges]
    found = [(int(a) // 4, int(a) % 4, int(b) % 4) for a, b in places.T]
    assert all(int(a) // 4 == int(b) // 4 for a, b in places.T)
    joints = [(0, 1, 0), (0, 2, 1), (0, 3, 2), (1, 1, 0), (1, 2, 1)]
    joints += [(row, limb, parent) for row in (2, 3) for limb, parent in ((1, 0), (2, 0), (3, 2))]
    loops = [(0, 0, 3), (2, 1, 2), (2, 1, 3), (3, 1, 2), (3, 1, 3)]
    both = [*joints, *loops]
    assert sorted(found) == sorted([*both, *((row, j, i) for row, i, j in both)])
    half = len(found) // 2
    assert found[half - len(loops) : half] == loops
    trees = TokenBatch(replace(tokens.table, loops=None), index, torch.zeros(4, 4, 17))
    assert trees.packed_edges.shape == (2, 2 * len(joints))
    first = [*range(half - len(loops)), *range(half, 2 * half - len(loops))]
    assert torch.equal(trees.packed_edges, tokens.packed_edges[:, first])


def test_loops_follow_their_limbs_into_a_sequence_and_their_body_into_a_table():
    table = looped_table()
    orders = [[(0, 1, 2, 3), (0, 2, 3, 1)], [(0, 1, 2)], [(3, 2, 1, 0)]]
    found = table.serialized(Serialization(orders, 4))
    assert found.loops.tolist() == [
        [[1, 2], [1, 3]], [[3, 1], [3, 2]], [[-1, -1], [-1, -1]], [[3, 0], [-1, -1]],
    ]  # fmt: skip
    assert torch.equal(take_bodies(table, torch.tensor([2, 0])).loops, table.loops[[2, 0]])
    assert torch.equal(table.to("cpu").loops, table.loops)
    assert "loops" not in replace(table, loops=None).to("cpu").tensors()
