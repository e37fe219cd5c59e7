"""What tokens cost: every kind of measurement, at sizes of no importance."""

import pytest
import torch

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.profiling.scaling import KINDS, TRAIN_BATCH, TokenItem, measure_tokens


@pytest.fixture(autouse=True)
def same_threads():
    """Leave the number of threads as it was."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def item(kind, method="recmorph", tokens=6):
    return TokenItem(kind=kind, method=method, preset="lite", tokens=tokens, seconds=0.001)


@pytest.mark.parametrize("method", ["recmorph", "smr", "mlp"])  # plain, with memory, per body
def test_every_kind_gives_its_figures(method):
    found = {kind: measure_tokens(item(kind, method)) for kinds in KINDS.values() for kind in kinds}
    assert found["act-memory"].keys() == {"act_mib", "parameters"}
    assert found["train-memory"].keys() == {"train_mib", "parameters"}
    assert found["train-memory"]["train_mib"] > found["act-memory"]["act_mib"] > 0
    assert found["act-time"].keys() == {"act_ms", "samples_per_s", "repeats"}
    step = found["train-time"]
    assert step["samples_per_s"] == pytest.approx(1e3 * TRAIN_BATCH / step["train_ms"])
    assert step["repeats"] >= 3


def test_memory_is_exact_and_linear_for_a_recurrence():
    sizes = (32, 64, 128)
    found = [measure_tokens(item("act-memory", tokens=size))["act_mib"] for size in sizes]
    again = measure_tokens(item("act-memory", tokens=sizes[0]))["act_mib"]
    assert found[0] == again
    assert found[2] - found[1] == pytest.approx(2 * (found[1] - found[0]), rel=0.02)


def test_what_cannot_be_built_says_so():
    with pytest.raises(GmcBenchError, match="at least one limb"):
        measure_tokens(item("act-memory", tokens=0))
