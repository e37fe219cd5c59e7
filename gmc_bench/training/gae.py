"""Generalized advantage estimation over a rollout whose episodes end in three ways."""

import torch


def generalized_advantages(
    reward: torch.Tensor,
    value: torch.Tensor,
    next_value: torch.Tensor,
    done: torch.Tensor,
    no_error: torch.Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> torch.Tensor:
    """Return the advantages of a rollout.

    Formula:
        delta_t = r_t + gamma V(s_{t+1}) - V(s_t);
        A_t = delta_t + gamma lambda (1 - done_t) A_{t+1}

    The caller sets `next_value` to what follows each step: the value of the next observation,
    zero after a failure, or the value of the episode's last observation at a time limit. An
    episode's end always stops the sum, so nothing leaks from the next episode.

    Args:
        reward: (T, N).
        value: (T, N), of the observation before each step.
        next_value: (T, N), of what follows each step, see above.
        done: (T, N) bool, the episode ended with this step.
        no_error: (T, N) bool, steps whose delta counts as zero (a broken simulation, or a time
            limit under the public code's rule).
        gamma: discount.
        gae_lambda: lambda.

    Returns:
        (T, N) advantages.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eqs. 11-16.
    """
    delta = reward + gamma * next_value - value
    delta = torch.where(no_error, torch.zeros_like(delta), delta)
    carry = gamma * gae_lambda * (~done).to(delta.dtype)
    advantage = torch.zeros_like(delta)
    running = torch.zeros_like(delta[0])
    for t in reversed(range(delta.shape[0])):
        running = delta[t] + carry[t] * running
        advantage[t] = running
    return advantage
