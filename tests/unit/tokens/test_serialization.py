import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from gmc_bench.bodies.schema import Loop
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.conformance.tokens import random_table
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens import traversal
from gmc_bench.tokens.config import TOPOLOGY_ATTRIBUTES, TokenConfig
from gmc_bench.tokens.serialization import Serialization, make_serialization, make_sibling_test
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

TREES = ("kinematic", "breadth-first")
DECODER = {"swat": {"decoder_init": 1.0}}
ORDERS = ("dfs", "bfs", "random", "siblings")


@pytest.fixture(scope="module")
def bodies():
    return build_table(compile_models((biped(), chain(3), star(4)), TASK.scene), TokenSpec(7))


@pytest.mark.parametrize("order", ORDERS)
def test_every_sequence_shows_every_limb_once_and_leaves_padding_in_place(bodies, order):
    found = make_serialization(order, bodies)
    assert found.body.tolist() == sorted(found.body.tolist())
    assert set(found.body.tolist()) == {0, 1, 2}
    for body, limbs, places in zip(found.body, found.limbs, found.places, strict=True):
        count = bodies.num_limbs[body]
        assert sorted(limbs[:count]) == list(range(count))
        assert limbs[count:].tolist() == list(range(count, 7))
        assert (limbs[places] == np.arange(7)).all()


def test_an_unknown_order_is_refused(bodies):
    with pytest.raises(ConfigError, match=r"unknown order of limbs 'sibling'; did you mean 'sibl"):
        make_serialization("sibling", bodies)


@pytest.mark.parametrize("order", ORDERS)
def test_restoring_undoes_arranging(bodies, order):
    found = make_serialization(order, bodies)
    rows = np.random.default_rng(0).integers(0, len(found), 20)
    values = np.random.default_rng(1).standard_normal((20, 7, 3)).astype(np.float32)
    arranged = found.arrange(values, rows)
    for k, row in enumerate(rows):
        assert (arranged[k] == values[k][found.limbs[row]]).all()
    assert (found.restore(arranged, rows) == values).all()


def test_only_the_engines_order_is_canonical(bodies):
    assert make_serialization("dfs", bodies).canonical
    assert not any(make_serialization(order, bodies).canonical for order in ORDERS[1:])


def test_parents_are_the_places_of_parents(bodies):
    for order in ORDERS:
        found = make_serialization(order, bodies)
        parents = found.parents(bodies.parents)
        for body, limbs, row in zip(found.body, found.limbs, parents, strict=True):
            for place, limb in enumerate(limbs):
                parent = bodies.parents[body, limb]
                expected = list(limbs).index(parent) if parent >= 0 else parent
                assert row[place] == expected


def test_orders_follow_from_the_body_alone(bodies):
    for order, limbs in (
        ("random", traversal.random_order),
        ("siblings", traversal.sibling_orders),
    ):
        found = make_serialization(order, bodies)
        for body, digest in enumerate(bodies.digests):
            key = hashlib.sha256(f"serialization/{order}/{digest}".encode()).digest()
            rng = np.random.default_rng(int.from_bytes(key[:16]))
            count = bodies.num_limbs[body]
            drawn = limbs(bodies.parents[body, :count].tolist(), rng)
            expected = [drawn] if order == "random" else [*drawn.known]
            mine = found.limbs[found.body == body, :count]
            assert [tuple(row) for row in mine.tolist()] == expected
    alone = build_table(compile_models((star(4),), TASK.scene), TokenSpec(7))
    for order in ORDERS:
        found, single = make_serialization(order, bodies), make_serialization(order, alone)
        assert (found.limbs[found.body == 2] == single.limbs).all()


def test_sequences_are_chosen_evenly(bodies):
    found = make_serialization("siblings", bodies)
    body = np.full(1200, 2)
    chosen = found.choose(body, (np.arange(1200) + 0.5) / 1200)
    counts = np.bincount(chosen, minlength=len(found))
    assert (counts[found.body != 2] == 0).all()
    assert np.ptp(counts[found.body == 2]) <= 1
    assert found.choose(np.array([2]), np.array([1.0]))[0] == len(found) - 1


def test_the_sibling_test_starts_with_the_canonical_order_and_marks_the_unseen(bodies):
    found, unseen, totals = make_sibling_test(bodies)
    trained = make_serialization("siblings", bodies)
    for body in range(3):
        mine = np.flatnonzero(found.body == body)
        assert (found.limbs[mine[0]] == np.arange(7)).all()
        assert not unseen[mine[0]]
        known = {tuple(row) for row in trained.limbs[trained.body == body].tolist()}
        for row in mine:
            assert unseen[row] == (tuple(found.limbs[row].tolist()) not in known)
        assert len(mine) == min(totals[body], 51)
    assert totals[2] == 24


def test_a_body_may_have_more_orders_than_64_bits_count():
    many = build_table(compile_models((star(21),), TASK.scene), TokenSpec(22))
    found, unseen, totals = make_sibling_test(many)
    assert totals == (51_090_942_171_709_440_000,)  # 21!
    assert (len(found), unseen.sum()) == (51, 50)


def test_a_serialized_table_is_the_table_rearranged():
    spec = TokenSpec(6)
    table = random_table(np.random.default_rng(0), spec, [4, 6])
    orders = [[(0, 1, 2, 3), (0, 3, 1, 2)], [(5, 4, 3, 2, 1, 0)]]
    found = table.serialized(Serialization(orders, 6))
    assert len(found) == 3
    for name in ("context", "scaled_context", "action_padding_mask"):
        values, arranged = getattr(table, name), getattr(found, name)
        assert torch.equal(arranged[0], values[0])
        assert torch.equal(arranged[1], values[0][[0, 3, 1, 2, 4, 5]])
        assert torch.equal(arranged[2], values[1].flip(0))
    assert found.num_limbs.tolist() == [4, 4, 6]
    assert torch.equal(found.limb_padding_mask, table.limb_padding_mask[[0, 0, 1]])
    assert int(found.parents[2][5]) == -1


@pytest.mark.parametrize("order", ["bfs", "random", "siblings"])
def test_an_equivariant_method_acts_the_same_in_every_order_and_a_recurrent_one_does_not(
    bodies, order
):
    rng = np.random.default_rng(0)
    spec = TokenSpec(7)
    table = TokenTable(
        spec,
        *(torch.from_numpy(rng.standard_normal((3, 7, 35)).astype(np.float32)) for _ in range(2)),
        *(
            torch.from_numpy(getattr(bodies, name))
            for name in ("limb_padding_mask", "action_padding_mask", "parents", "num_limbs")
        ),
    )
    found = make_serialization(order, bodies)
    rows = np.arange(len(found))
    dynamic = rng.standard_normal((len(found), 7, 17)).astype(np.float32)
    plain = TokenBatch(table, torch.from_numpy(found.body), torch.from_numpy(dynamic))
    arranged = TokenBatch(
        table.serialized(found),
        torch.from_numpy(rows),
        torch.from_numpy(found.arrange(dynamic, rows)),
    )
    real = ~plain.action_padding_mask.numpy()
    difference = {}
    for name in ("metamorph-star", "swat", "recmorph"):
        method = METHODS.load(name)
        torch.manual_seed(0)
        network = method.build(method.make_config("lite", {"decoder_init": 1.0}), spec, 2).eval()
        with torch.no_grad():
            expected = network(plain).numpy()
            actions = found.restore(network(arranged).numpy(), rows)
        difference[name] = np.abs(actions - expected)[real].max()
    assert difference["metamorph-star"] < 1e-4
    assert difference["recmorph"] > 1e-2
    assert difference["swat"] > 1e-2  # its traversal positions follow the order of siblings


def test_left_out_attributes_are_the_papers_twenty():
    full, small = TokenSpec(7), TokenSpec(7, without=TokenConfig(attributes="hardware").without)
    assert full.num_features - small.num_features == 20
    assert small.num_features == 32
    assert small.num_dynamic == full.num_dynamic == 17
    assert small.num_context == 15
    kept = [group.name for group in small.slices if group.kind == "context"]
    assert kept == [
        "body_mass", "body_shape", "joint_range/0", "joint_axis/0", "gear/0",
        "joint_range/1", "joint_axis/1", "gear/1",
    ]  # fmt: skip


def test_a_table_without_attributes_holds_the_others_unchanged():
    models = compile_models((biped(), star(4)), TASK.scene)
    full, small = TokenSpec(7), TokenSpec(7, without=TOPOLOGY_ATTRIBUTES)
    tables = {spec: build_table(models, spec) for spec in (full, small)}

    def group(spec, name):
        place = spec.slice(name)
        columns = np.searchsorted(spec.context_indices, np.arange(place.start, place.stop))
        return tables[spec].context[..., columns]

    for found in small.slices:
        if found.kind == "context":
            assert (group(full, found.name) == group(small, found.name)).all()


def test_only_context_features_can_be_left_out():
    with pytest.raises(ConfigError, match="'body_xpos' is no group of context features"):
        TokenSpec(7, without=("body_xpos",))


def test_a_loop_body_is_read_depth_first_along_the_chosen_tree():
    loop = Loop(first=0, second=4, anchor=(0.0, 0.0, 0.0))
    models = compile_models((replace(chain(5), loops=(loop,)), biped()), TASK.scene)
    tables = {tree: build_table(models, TokenSpec(6, tree=tree)) for tree in TREES}
    assert make_serialization("dfs", tables["kinematic"]).canonical
    found = make_serialization("dfs", tables["breadth-first"])
    assert found.limbs.tolist() == [[0, 1, 2, 4, 3, 5], [0, 1, 2, 3, 4, 5]]
    grown = tables["breadth-first"]
    assert found.parents(grown.parents).tolist() == [[-1, 0, 1, 0, 3, -2], [-1, 0, 1, 0, 3, -2]]
    assert found.loops(grown.loops).tolist() == [[[2, 4]], [[-1, -1]]]
    assert make_serialization("bfs", grown).limbs[0].tolist() == [0, 1, 4, 2, 3, 5]
    assert make_serialization("bfs", tables["kinematic"]).limbs[0].tolist() == list(range(6))


@pytest.mark.parametrize("name", ["nervenet", "gcnt", "mi-hgnn", "bot", "swat", "metamorph-star"])
def test_what_the_limb_graph_says_does_not_depend_on_the_tree(name):
    loop = Loop(first=0, second=4, anchor=(0.0, 0.0, 0.0))
    models = compile_models((replace(chain(5), loops=(loop,)), biped()), TASK.scene)
    method = METHODS.load(name)
    torch.manual_seed(0)
    network = method.build(method.make_config("lite", DECODER.get(name)), TokenSpec(6), 2).eval()
    rng = np.random.default_rng(0)
    dynamic = rng.standard_normal((2, 6, 17)).astype(np.float32)
    actions = []
    for tree in TREES:
        table = build_table(models, TokenSpec(6, tree=tree))
        tokens = TokenTable(
            table.spec,
            torch.from_numpy(table.context),
            torch.from_numpy(table.context),
            *(
                torch.from_numpy(getattr(table, name))
                for name in (
                    "limb_padding_mask", "action_padding_mask", "parents", "num_limbs", "loops",
                )
            ),
        )  # fmt: skip
        order, rows = make_serialization("dfs", table), np.arange(2)
        batch = TokenBatch(
            tokens.serialized(order),
            torch.from_numpy(rows),
            torch.from_numpy(order.arrange(dynamic, rows)),
        )
        with torch.no_grad():
            actions.append(order.restore(network(batch).numpy(), rows))
    real = ~table.limb_padding_mask
    moved = np.abs(actions[0] - actions[1])[real].max() / np.abs(actions[0])[real].max()
    if name == "swat":  # its traversals follow the tree
        assert moved > 1e-3
    else:
        assert moved < 1e-4
