"""The quick count gives the numbers of the plain one."""

import pytest
import torch

from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.profiling.scaling import _gradient_step, _tokens, actor, make_policy
from gmc_bench.profiling.scaling_memory import QuickPeakMemory


def test_results_that_live_at_the_same_time_add_up():
    start = torch.zeros(1000)
    with QuickPeakMemory() as peak:
        first = start + 1  # 4,000 bytes
        second = first + 1  # 8,000
        del first  # 4,000
        third = second + 1  # 8,000
        del second
        fourth = torch.cat((third, third))  # 4,000 + 8,000
    assert peak.nbytes == 12_000
    assert fourth.shape == (2000,)


def test_views_inputs_and_results_in_place_are_free():
    start = torch.zeros(10, 100)
    with QuickPeakMemory() as peak:
        start.t().add_(1.0)
        view = start.view(-1)[:5].unsqueeze(0).expand(7, 5)
    assert view.shape == (7, 5)
    assert peak.nbytes == 0


@pytest.mark.parametrize("method", ["recmorph", "bot", "smr"])
def test_networks_take_what_the_plain_count_says(method):
    model = make_policy(method, "lite", 5, 8)
    act = actor(model, _tokens(model.spec, 8))
    step, _ = _gradient_step(model)
    for run in (act, step):
        run()  # tables of the bodies are kept from here on
    for run in (act, step):
        found = []
        for count in (PeakMemory, QuickPeakMemory):
            with count() as peak:
                run()
            found.append(peak.nbytes)
        assert found[0] == found[1] > 0
