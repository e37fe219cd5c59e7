import torch

from gmc_bench.profiling.memory import PeakMemory


def test_results_that_live_at_the_same_time_add_up():
    start = torch.zeros(1000)
    with PeakMemory() as peak:
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
    with PeakMemory() as peak:
        start.t().add_(1.0)
        view = start.view(-1)[:5].unsqueeze(0).expand(7, 5)
    assert view.shape == (7, 5)
    assert peak.nbytes == 0


def test_gradients_are_counted():
    weight = torch.zeros(100, 100, requires_grad=True)
    with PeakMemory() as peak:
        weight.square().sum().backward()
    assert peak.nbytes >= 2 * 40_000
