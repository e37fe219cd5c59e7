"""Random numbers of separate bodies, which do not depend on what other bodies there are."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.sim.batch import spawn_streams

_WEIGHTS, _ENVIRONMENTS, _ACTIONS, _ORDER = range(4)


class BodyStreams:
    """Random numbers of M bodies that follow from the run's seed and the body alone.

    A body's numbers are the same whichever other bodies there are. Those of an iteration follow
    from its number, so that a checkpoint needs to store none of it.

    Args:
        seed: of the run.
        digests: content hash of each body; bodies with the same content are told apart by how
            many came before.
    """

    def __init__(self, seed: int, digests: Sequence[str]) -> None:
        self.iteration = 0
        """The one whose numbers are drawn."""
        seen: Counter[str] = Counter()
        self._keys: list[list[int]] = []
        for digest in digests:
            self._keys.append([seed, seen[digest], int(digest, 16)])
            seen[digest] += 1

    def __len__(self) -> int:
        return len(self._keys)

    def _sequences(self, *purpose: int) -> list[np.random.SeedSequence]:
        return [np.random.SeedSequence(key, spawn_key=purpose) for key in self._keys]

    def weights(self) -> list[int]:
        """Return for every body the seed of its initial weights."""
        return [int(part.generate_state(1)[0]) for part in self._sequences(_WEIGHTS)]

    def environments(self, count: int) -> Array:
        """Return the streams of `count` environments of every body, (M * count, 4) uint64."""
        seeds = [int(part.generate_state(1)[0]) for part in self._sequences(_ENVIRONMENTS)]
        return np.concatenate([spawn_streams(seed, count) for seed in seeds])

    def action_noise(self, length: int, count: int, shape: tuple[int, ...]) -> FloatArray:
        """Return standard normal numbers for the actions of the iteration.

        Args:
            length: T, steps.
            count: E, environments per body.
            shape: of one action.

        Returns:
            (T, M * E, *shape) float32.
        """
        noise: FloatArray = np.empty((length, len(self), count, *shape), np.float32)
        for body, part in enumerate(self._sequences(_ACTIONS, self.iteration)):
            rng = np.random.default_rng(part)
            noise[:, body] = rng.standard_normal((length, count, *shape), np.float32)
        return noise.reshape(length, -1, *shape)

    def orders(self, repeat: int, count: int) -> IntArray:
        """Return in which order each body's transitions are learned from in the iteration.

        Args:
            repeat: epochs.
            count: transitions of a body.

        Returns:
            (repeat, M, count) int64, permutations.
        """
        orders = np.empty((repeat, len(self), count), np.int64)
        for body, part in enumerate(self._sequences(_ORDER, self.iteration)):
            rng = np.random.default_rng(part)
            for epoch in range(repeat):
                orders[epoch, body] = rng.permutation(count)
        return orders
