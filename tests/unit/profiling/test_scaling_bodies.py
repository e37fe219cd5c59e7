"""What bodies cost: every side of a set, at sizes of no importance."""

import pytest
import torch

from gmc_bench.profiling import scaling_bodies as module
from gmc_bench.profiling.scaling_bodies import (
    BodyItem,
    body_table,
    distinct_bodies,
    measure_bodies,
    measure_table,
)
from gmc_bench.profiling.scaling_process import resident_bytes


@pytest.fixture(autouse=True)
def same_threads():
    """Leave the number of threads as it was."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def measure(kind, bodies, method="recmorph"):
    return measure_bodies(BodyItem(kind=kind, method=method, preset="lite", bodies=bodies))


def test_bodies_are_distinct():
    bodies = distinct_bodies(60)
    assert len({body.digest for body in bodies}) == len({body.name for body in bodies}) == 60
    assert {body.num_limbs for body in bodies} == set(range(3, 13))


def test_the_simulation_is_measured(monkeypatch):
    monkeypatch.setattr(module, "ROUNDS", 3)
    found = measure("simulation", 25)
    expected = {"build_s", "table_s", "draw_us", "reset_us", "record_us", "iteration_ms"}
    assert expected <= found.keys()
    assert all(found[name] > 0 for name in expected)
    assert 20 <= found["visited"] <= 25  # of 25 bodies, after 128 draws


def test_tables_are_counted_to_the_byte():
    slots, features = module.TOKENS, body_table(1).spec.num_context
    numbers = 4 * 2 * features + 1 + 2 + 8  # context twice, both masks, parents
    assert measure_table(7)["table_mib"] * 2**20 == 7 * (slots * numbers + 8)
    one, ten = measure_table(1), measure_table(10)
    assert ten["graph_mib"] == pytest.approx(10 * one["graph_mib"])
    assert ten["graph_peak_mib"] >= ten["graph_mib"]


@pytest.mark.parametrize("method", ["recmorph", "mlp"])
def test_policies_are_measured(method):
    found = measure("policy", 5, method)
    assert found["prepare_s"] > 0
    assert found["act_ms"] > 0
    if resident_bytes() is not None:
        assert found["policy_mib"] > 0


def test_separate_weights_grow_with_the_bodies_and_shared_ones_do_not():
    shared = [measure("policy", bodies)["weights_mib"] for bodies in (1, 4)]
    separate = [measure("policy", bodies, "mlp")["weights_mib"] for bodies in (1, 4)]
    assert shared[0] == shared[1]
    assert separate[1] == pytest.approx(4 * separate[0], rel=1e-3)


@pytest.mark.slow
def test_the_compiler_forgets_what_it_traced_before():
    for bodies in (1, 3):
        found = measure("compiler", bodies)
        assert found["compile_s"] > 0.5  # a network that is known already takes a tenth of that
        assert found["recompile_s"] > 0
