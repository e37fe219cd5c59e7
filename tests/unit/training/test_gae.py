"""Advantages against numbers worked out by hand (gamma = lambda = 0.5, so the carry is 1/4)."""

import pytest
import torch

from gmc_bench.training.gae import generalized_advantages


def advantages(reward, value, next_value, done=(0, 0, 0), no_error=(0, 0, 0)):
    column = [torch.tensor(x, dtype=torch.float32)[:, None] for x in (reward, value, next_value)]
    flags = [torch.tensor(x, dtype=torch.bool)[:, None] for x in (done, no_error)]
    found = generalized_advantages(*column, *flags, gamma=0.5, gae_lambda=0.5)
    return found[:, 0].tolist()


def test_without_an_end_every_error_is_carried_back():
    # delta = 1 + .5 - 1, 2 + .5 - 1, 3 + 1 - 1; A2 = 3, A1 = 1.5 + 3/4, A0 = .5 + 2.25/4
    assert advantages((1, 2, 3), (1, 1, 1), (1, 1, 2)) == [1.0625, 2.25, 3.0]


def test_an_end_stops_the_sum():
    # The second step ends in failure: nothing follows it, so delta1 = 2 + 0 - 1.
    assert advantages((1, 2, 3), (1, 1, 1), (1, 0, 2), done=(0, 1, 0)) == [0.75, 1.0, 3.0]


def test_a_step_without_error_adds_nothing_but_its_end():
    found = advantages((1, 2, 3), (1, 1, 1), (1, 0, 2), done=(0, 1, 0), no_error=(0, 1, 0))
    assert found == [0.5, 0.0, 3.0]


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_nothing_leaks_from_the_next_episode(gae_lambda):
    random = torch.Generator().manual_seed(0)
    reward, value, following = (torch.randn(6, 3, generator=random) for _ in range(3))
    done = torch.zeros(6, 3, dtype=torch.bool)
    done[2] = True
    none = torch.zeros_like(done)

    def run():
        return generalized_advantages(
            reward, value, following, done, none, gamma=0.99, gae_lambda=gae_lambda
        )

    before = run()
    reward[3:], value[3:], following[3:] = 1e6, -1e6, 1e6
    assert torch.equal(run()[:3], before[:3])


def test_lambda_one_gives_discounted_returns_minus_values():
    # Rewards 1, 2, 4, then failure: returns 1 + 1 + 1, 2 + 2, 4.
    reward = torch.tensor([[1.0], [2.0], [4.0]])
    value = torch.tensor([[0.5], [0.25], [0.125]])
    following = torch.tensor([[0.25], [0.125], [0.0]])
    done = torch.tensor([[False], [False], [True]])
    found = generalized_advantages(
        reward, value, following, done, torch.zeros_like(done), gamma=0.5, gae_lambda=1.0
    )
    assert (found + value)[:, 0].tolist() == [3.0, 4.0, 4.0]
