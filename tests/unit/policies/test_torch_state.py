"""Torch's generators and threads, lent to one piece of work and given back."""

import threading

import pytest
import torch

from gmc_bench.policies.torch_state import TorchState, drawing_apart, torch_threads


@pytest.fixture(autouse=True)
def _as_before():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


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


def test_it_is_given_back_where_the_work_fails():
    work, before = TorchState(3, "cpu", 3), torch.get_rng_state()
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), work.in_use():
        drawn(drawn()[0] / 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 2


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


def test_networks_are_built_without_a_trace():
    torch.manual_seed(7)
    expected = drawn()
    torch.manual_seed(7)
    with drawing_apart(5):
        found = drawn()
    assert drawn() == expected
    torch.manual_seed(5)
    assert drawn() == found


def test_threads_are_given_back():
    torch.set_num_threads(2)
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
