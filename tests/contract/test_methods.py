"""Every registered method keeps the contract, in every preset."""

import pytest
import torch

from gmc_bench.methods import METHODS
from gmc_bench.testing.check_method import check_method


@pytest.fixture(autouse=True)
def _one_thread():
    # The matrices are small: a second thread only waits, all the longer on a busy machine.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


CASES = [(name, preset) for name in METHODS.names() for preset in METHODS.get(name).presets]


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_method_conforms(name, preset):
    failed = [result for result in check_method(METHODS.get(name), preset) if not result.passed]
    assert failed == []


@pytest.mark.parametrize("name", METHODS.names())
def test_method_describes_itself(name):
    spec = METHODS.get(name)
    assert spec.id == name
    assert spec.title
    assert spec.paper
    assert spec.deviations
    assert {"paper", "lite"} <= set(spec.presets)
    assert set(spec.parameters) == set(spec.presets)


def test_in_tree_methods_are_registered():
    assert "recmorph" in METHODS.names()
