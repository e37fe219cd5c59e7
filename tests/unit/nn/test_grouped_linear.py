"""Grouped linear maps against a loop over rows."""

import pytest
import torch

from gmc_bench.nn.grouped_linear import grouped_linear, plan_groups, take_rows
from gmc_bench.policies.torch_state import torch_threads
from tests.support.largest_tensor import LargestTensor

IN, OUT = 5, 3
GROUPS = {
    "few rows": ([2, 0, 2], 3),
    "one row": ([1], 2),
    "no rows": ([], 2),
    "one row per group": ([3, 0, 2, 1], 4),
    "equal sizes, shuffled": ([0, 1, 2] * 7, 3),
    "one empty group": ([2, 0, 0, 2, 0, 2, 2, 0, 0], 3),
    "most groups empty": ([1] * 20, 6),
    "all rows in the last group": ([4] * 30, 5),
    "one large group is split": ([0] * 40 + [1, 2, 3, 4], 5),
    "splits and empty groups": ([5] * 40 + [1, 1, 3], 7),
    "one group": ([0] * 9, 1),
}


def make(groups, num_groups, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((len(groups), IN), (num_groups, IN, OUT), (num_groups, OUT))
    )
    return rows, torch.tensor(groups, dtype=torch.int64), weight, bias


def loop(rows, groups, weight, bias):
    found = [
        row @ weight[group] + bias[group] for row, group in zip(rows, groups.tolist(), strict=True)
    ]
    return torch.stack(found) if found else rows.new_zeros(0, OUT)


@pytest.mark.parametrize(("groups", "num_groups"), GROUPS.values(), ids=list(GROUPS))
def test_values_and_gradients_match_a_loop(groups, num_groups):
    inputs = make(groups, num_groups)
    found, expected = grouped_linear(*inputs), loop(*inputs)
    assert found.shape == (len(groups), OUT)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    parts = [inputs[0], inputs[2], inputs[3]]
    upstream = torch.randn(expected.shape, dtype=expected.dtype)
    if groups:
        pairs = zip(
            torch.autograd.grad(found, parts, upstream),
            torch.autograd.grad(expected, parts, upstream),
            strict=True,
        )
        for gradient, wanted in pairs:
            torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-12)


def test_random_groups_match_a_loop():
    generator = torch.Generator().manual_seed(3)
    for seed in range(30):
        num_groups = int(torch.randint(1, 9, (), generator=generator))
        count = int(torch.randint(0, 60, (), generator=generator))
        skew = torch.rand(count, generator=generator).pow(3) * num_groups
        inputs = make(skew.long().tolist(), num_groups, seed=seed)
        torch.testing.assert_close(grouped_linear(*inputs), loop(*inputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("case", ["few rows", "splits and empty groups"])
def test_other_precisions(case, dtype, atol):
    inputs = make(*GROUPS[case], dtype=dtype)
    found = grouped_linear(*inputs)
    assert found.dtype == dtype
    wide = [value.double() if value.is_floating_point() else value for value in inputs]
    torch.testing.assert_close(found.double(), loop(*wide), rtol=0, atol=atol)


@pytest.mark.parametrize("case", ["few rows", "splits and empty groups"])
def test_autocast(case):
    inputs = make(*GROUPS[case], dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = grouped_linear(*inputs)
    found.float().sum().backward()
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), loop(*inputs), rtol=0, atol=0.1)


def test_a_plan_serves_several_maps(monkeypatch):
    groups, num_groups = GROUPS["splits and empty groups"]
    plan = plan_groups(torch.tensor(groups), num_groups)
    maps = [make(groups, num_groups, seed=seed) for seed in range(2)]
    expected = [grouped_linear(*inputs) for inputs in maps]
    monkeypatch.setitem(grouped_linear.__globals__, "plan_groups", None)  # nobody makes another one
    for inputs, wanted in zip(maps, expected, strict=True):
        assert torch.equal(grouped_linear(*inputs, plan), wanted)


def test_plan_by_hand():
    """Sizes 4, 2, 2 fit blocks of twice the mean of 3 rows, so a block holds the largest."""
    plan = plan_groups(torch.tensor([2, 0, 0, 2, 0, 1, 0, 1]), 3)
    assert (plan.num_blocks, plan.capacity, plan.block_groups) == (3, 4, None)
    assert plan.places.tolist() == [8, 0, 1, 9, 2, 4, 3, 5]


def test_plan_splits_a_large_group():
    """11 rows of 3 groups, mean 4: blocks of 8, so that group 0 takes two, and group 3 none."""
    plan = plan_groups(torch.tensor([0] * 9 + [1, 2]), 4)
    assert plan.capacity == 8
    assert plan.block_groups.tolist() == [0, 0, 1, 2]
    assert plan.places.tolist() == [*range(9), 16, 24]


def test_few_rows_need_no_plan():
    assert plan_groups(torch.tensor([0, 1, 1, 1]), 2) is None
    assert plan_groups(torch.tensor([0, 1, 1, 1, 0]), 2) is not None


@pytest.mark.parametrize("skew", [1, 6])
def test_no_weight_per_row_is_made(skew):
    """Neither forward nor backward: 4,000 rows with 20 groups stay near rows and weights."""
    num_groups, count, inputs, outputs = 20, 4_000, 16, 16
    groups = (torch.rand(count).pow(skew) * num_groups).long()
    rows = torch.randn(count, inputs, requires_grad=True)
    weight = torch.randn(num_groups, inputs, outputs, requires_grad=True)
    bias = torch.randn(num_groups, outputs, requires_grad=True)
    with LargestTensor() as largest:
        grouped_linear(rows, groups, weight, bias).sum().backward()
    assert largest.numel <= (3 * count + num_groups) * inputs
    assert largest.numel < count * inputs * outputs / 4


def test_few_weights_at_a_time_are_copied_without_gradients_and_no_bit_changes():
    generator = torch.Generator().manual_seed(5)
    groups = torch.randint(600, (1100,), generator=generator)
    shapes = ((1100, 96), (600, 96, 64), (600, 64))
    rows, weight, bias = (torch.randn(shape, generator=generator) for shape in shapes)
    expected = grouped_linear(rows, groups, weight, bias)
    with torch.no_grad(), LargestTensor() as largest:
        found = grouped_linear(rows, groups, weight, bias)
    assert largest.numel <= weight.numel()  # a copy for every row would be 1.8 times as large
    assert torch.equal(found, expected)


@pytest.mark.parametrize("count", [100, 20_000])
def test_repeated_runs_are_equal(count):
    """With a weight per row, and in blocks with groups that are split."""
    groups = (torch.rand(count).pow(4) * 60).long()
    inputs = make(groups.tolist(), 60, dtype=torch.float32)
    runs = []
    for _ in range(4):
        found = grouped_linear(*inputs)
        parts = [inputs[0], inputs[2], inputs[3]]
        runs.append([found, *torch.autograd.grad(found.square().sum(), parts)])
    for run in runs[1:]:
        for one, other in zip(runs[0], run, strict=True):
            assert torch.equal(one, other)


def test_taken_rows_and_their_gradient():
    values = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([2, 0, 2, 2])
    assert torch.equal(take_rows(values, index), values[index])
    assert torch.autograd.gradcheck(lambda v: take_rows(v, index), values)


def test_gradient_of_rows_taken_often_is_the_same_in_every_run():
    values = torch.randn(10, 12, 12, requires_grad=True)
    index, upstream = torch.randint(0, 10, (4_000,)), torch.randn(4_000, 12, 12)
    with torch_threads(4):  # a single one adds up in one order whatever it does
        first, *others = (
            torch.autograd.grad(take_rows(values, index), values, upstream)[0] for _ in range(12)
        )
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("case", ["few rows", "equal sizes, shuffled", "splits and empty groups"])
def test_a_gpu_gives_the_same_numbers(case):
    inputs = make(*GROUPS[case])
    moved = [value.detach().cuda() for value in inputs]
    found = grouped_linear(*moved)
    torch.testing.assert_close(found.cpu(), loop(*inputs), rtol=0, atol=1e-12)
