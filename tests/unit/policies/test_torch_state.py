"""Torch's generators and threads, lent to one piece of work and given back."""

import threading

import pytest
import torch

from gmc_bench.policies.torch_state import (
    TorchState,
    exchange_rounding,
    forked_rng,
    torch_threads,
)


def drawn(count=2):
    return torch.rand(count).tolist()


def test_work_draws_its_own_numbers_and_gives_the_others_back():
    torch.manual_seed(3)
    own = [drawn(), drawn()]
    torch.manual_seed(7)
    others = [drawn(), drawn()]
    work = TorchState(3, "cpu", 3)
    torch.manual_seed(7)
    torch.set_num_threads(2)
    found = []
    for _ in range(2):
        with work.in_use():
            found.append((drawn(), torch.get_num_threads()))
        assert (drawn(), torch.get_num_threads()) == (others[len(found) - 1], 2)
    assert found == [(row, 3) for row in own]


@pytest.mark.parametrize("takes_turns", [False, True])
@pytest.mark.parametrize("aside", [False, True])
def test_it_is_given_back_where_the_work_or_who_is_called_aside_fails(aside, takes_turns):
    def fail():
        drawn(0 if aside else 2)
        raise ZeroDivisionError

    work, before = TorchState(3, "cpu", 3, takes_turns=takes_turns), torch.get_rng_state()
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), work.in_use():
        (work.aside(fail) if aside else fail)()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("outside", [False, True])
def test_work_has_gradients_whatever_the_caller_has(outside):
    work = TorchState(1, "cpu", 3)
    with torch.set_grad_enabled(outside):
        for _ in range(2):
            with work.in_use():
                assert torch.is_grad_enabled()
                with torch.no_grad():
                    assert work.aside(torch.is_grad_enabled)() == outside
                    assert not torch.is_grad_enabled()
            assert torch.is_grad_enabled() == outside


def test_who_is_called_aside_may_wait_for_other_work():
    """That of another thread, which takes its turn meanwhile."""
    first, second, found = TorchState(1, "cpu", 3), TorchState(1, "cpu", 3), []

    def work():
        with second.in_use():
            found.append(drawn())

    def listener():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive()

    with first.in_use():
        first.aside(listener)()
        found.append(drawn())
    assert found[0] == found[1]


def test_a_state_that_is_part_of_a_larger_tensor_is_taken_whole():
    work, other = TorchState(1, "cpu", 3), TorchState(1, "cpu", 4)
    work.cpu = torch.stack([work.cpu, other.cpu])[1]
    with work.in_use():
        found = drawn()
    with other.in_use():
        assert drawn() == found


EXACT = ("highest", False)
"""Float32 means float32."""


@pytest.fixture
def rounding():
    """Return how products and recurrences round on a GPU, which is put back at the end."""
    before = exchange_rounding(EXACT)
    yield lambda: (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    exchange_rounding(before)


def test_products_and_recurrences_round_apart(rounding):
    assert rounding() == EXACT
    before = EXACT
    for now in (("highest", True), ("high", False), ("medium", False)):
        assert exchange_rounding(now) == before
        assert rounding() == now
        before = now


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_work_on_a_gpu_rounds_as_its_precision_says_and_nothing_else_does(
    rounding, monkeypatch, precision
):
    """With a stand-in for the GPU's generator."""
    work, generator = TorchState(1, "cpu", 3, precision=precision), [torch.arange(16)]
    monkeypatch.setattr(work, "_device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: generator[0])
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, _: generator.__setitem__(0, state)
    )
    work.gpu = torch.arange(16) + 1
    for outside in (("highest", True), ("high", False), ("medium", True)):
        exchange_rounding(outside)
        for _ in range(2):
            with work.in_use():
                assert rounding() == (("high", True) if precision == "tf32" else EXACT)
                assert torch.equal(generator[0], torch.arange(16) + 1)
            assert rounding() == outside
            assert torch.equal(generator[0], torch.arange(16))


def test_networks_are_built_without_a_trace():
    torch.manual_seed(7)
    expected = drawn()
    torch.manual_seed(7)
    with forked_rng(5):
        found = drawn()
    assert drawn() == expected
    torch.manual_seed(5)
    assert drawn() == found


def test_other_work_waits_until_networks_are_built():
    work, found = TorchState(1, "cpu", 3), []

    def draw():
        with work.in_use():
            found.append(drawn())

    thread = threading.Thread(target=draw, daemon=True)
    with forked_rng(5):
        thread.start()
        thread.join(timeout=0.02)
        assert not found
        own = drawn()
    thread.join(timeout=60)
    torch.manual_seed(5)
    assert drawn() == own
    torch.manual_seed(3)
    assert found == [drawn()]


def test_threads_are_given_back():
    torch.set_num_threads(2)
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
