"""Running normalisation of rewards."""

import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray
from gmc_bench.policies.normalization import CLIP, EPSILON, RunningMoments


class RewardNormalizer:
    """Divides rewards by the running standard deviation of the discounted return.

    One scalar statistic for all environments and bodies, or one for each of M bodies that are
    trained on their own; the mean is not subtracted.

    Args:
        num_envs: B.
        gamma: discount.
        num_bodies: M statistics; the B / M environments of a body stand side by side.
    """

    def __init__(self, num_envs: int, gamma: float, num_bodies: int = 1) -> None:
        self.gamma = gamma
        self.discounted: DoubleArray = np.zeros(num_envs)
        self.moments = RunningMoments.start((num_bodies,))

    def __call__(self, reward: DoubleArray, done: BoolArray) -> DoubleArray:
        """Update with one step of rewards (B,) and return them scaled and clipped to +-10."""
        self.discounted = self.gamma * self.discounted + reward
        batch = self.discounted.reshape(len(self.moments.mean), -1)
        count = np.full(len(batch), float(batch.shape[1]))
        self.moments.merge(batch.mean(axis=1), batch.var(axis=1), count)
        deviation = np.sqrt(self.moments.variance + EPSILON)
        scaled: DoubleArray = np.clip(reward / deviation.repeat(batch.shape[1]), -CLIP, CLIP)
        self.discounted[done] = 0.0
        return scaled

    def get_state(self) -> dict[str, Array]:
        """Return the statistics and the running returns as float64 arrays."""
        return {"discounted": self.discounted, **self.moments.get_state()}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over what `get_state` returned."""
        self.discounted = state["discounted"].copy()
        self.moments.set_state(state)
