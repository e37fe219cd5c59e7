"""Costs over tokens and bodies: every kind of measurement, at sizes of no importance."""

import contextlib

import pytest

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.profiling import scaling
from gmc_bench.profiling.memory import resident_bytes
from gmc_bench.profiling.scaling import TRAIN_BATCH, Item, body_table, distinct_bodies, measure

KINDS = ("act-memory", "train-memory", "act-time", "train-time")


def item(kind, method="recmorph", tokens=6):
    return Item(kind=kind, method=method, preset="lite", size=tokens, seconds=0.001)


@pytest.mark.parametrize("method", ["recmorph", "smr", "mlp"])  # plain, with memory, per body
def test_every_kind_gives_its_figures(method):
    found = {kind: measure(item(kind, method)) for kind in KINDS}
    assert found["act-memory"].keys() == {"act_mib", "parameters"}
    assert found["train-memory"].keys() == {"train_mib", "parameters"}
    assert found["train-memory"]["train_mib"] > found["act-memory"]["act_mib"] > 0
    assert found["act-time"].keys() == {"act_ms", "samples_per_s", "repeats"}
    step = found["train-time"]
    assert step["samples_per_s"] == pytest.approx(1e3 * TRAIN_BATCH / step["train_ms"])
    assert step["repeats"] >= 3


@pytest.mark.parametrize("tokens", [6, 0])  # the latter cannot be built
def test_torch_is_left_as_it_was(torch_as_it_was, tokens):
    with contextlib.suppress(GmcBenchError):
        measure(item("train-time", tokens=tokens))


def test_memory_is_exact_and_linear_for_a_recurrence():
    sizes = (32, 64, 128)
    found = [measure(item("act-memory", tokens=size))["act_mib"] for size in sizes]
    again = measure(item("act-memory", tokens=sizes[0]))["act_mib"]
    assert found[0] == again
    assert found[2] - found[1] == pytest.approx(2 * (found[1] - found[0]), rel=0.02)


def test_what_cannot_be_built_says_so():
    with pytest.raises(GmcBenchError, match="at least one limb"):
        measure(item("act-memory", tokens=0))


def of_bodies(kind, bodies, method="recmorph"):
    return measure(Item(kind=kind, method=method, preset="lite", size=bodies))


def test_bodies_are_distinct():
    bodies = distinct_bodies(60)
    assert len({body.digest for body in bodies}) == len({body.name for body in bodies}) == 60
    assert {body.num_limbs for body in bodies} == set(range(3, 13))


def test_the_simulation_is_measured(monkeypatch):
    monkeypatch.setattr(scaling, "ROUNDS", 3)
    found = of_bodies("simulation", 25)
    expected = {"build_s", "table_s", "draw_us", "reset_us", "record_us", "iteration_ms"}
    assert expected <= found.keys()
    assert all(found[name] > 0 for name in expected)
    assert 20 <= found["visited"] <= 25  # of 25 bodies, after 128 draws


def test_tables_are_counted_to_the_byte():
    slots, features = scaling.TOKENS, body_table(1).spec.num_context
    numbers = 4 * 2 * features + 1 + 2 + 8  # context twice, both masks, parents
    assert of_bodies("table", 7)["table_mib"] * 2**20 == 7 * (slots * numbers + 8)
    one, ten = of_bodies("table", 1), of_bodies("table", 10)
    assert ten["graph_mib"] == pytest.approx(10 * one["graph_mib"])
    assert ten["graph_peak_mib"] >= ten["graph_mib"]


@pytest.mark.parametrize("method", ["recmorph", "mlp"])
def test_policies_are_measured(method):
    found = of_bodies("policy", 5, method)
    assert found["prepare_s"] > 0
    assert found["act_ms"] > 0
    if resident_bytes() is not None:
        assert found["policy_mib"] > 0


@pytest.mark.slow
def test_separate_weights_grow_with_the_bodies_and_shared_ones_do_not():
    shared = [of_bodies("policy", bodies)["weights_mib"] for bodies in (1, 4)]
    separate = [of_bodies("policy", bodies, "mlp")["weights_mib"] for bodies in (1, 4)]
    assert shared[0] == shared[1]
    assert separate[1] == pytest.approx(4 * separate[0], rel=1e-3)


@pytest.mark.slow
def test_the_compiler_forgets_what_it_traced_before():
    for bodies in (1, 3):
        found = of_bodies("compiler", bodies)
        assert found["compile_s"] > 0.5  # a network that is known already takes a tenth of that
        assert found["recompile_s"] > 0
