"""Episodes played without the others: the same bits as in the whole evaluation."""

import numpy as np
import pytest

from gmc_bench.evaluation import chosen
from gmc_bench.evaluation.chosen import play_chosen
from gmc_bench.evaluation.evaluate import Observer, Scoring


class Totals(Observer):
    """Adds up the rewards of every episode, and counts the rows that were simulated."""

    def __init__(self):
        self.totals, self.lengths, self.rows = {}, {}, 0

    def stepped(self, core, numbers, actions, step):
        self.rows = core.num_envs
        for number, reward in zip(numbers.tolist(), step.reward.tolist(), strict=True):
            if number >= 0:
                self.totals[number] = self.totals.get(number, 0.0) + reward
                self.lengths[number] = self.lengths.get(number, 0) + 1


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
@pytest.mark.parametrize("memory", [False, True])
def test_chosen_episodes_have_the_bits_of_the_whole_evaluation(
    make_trained, remembering, monkeypatch, mode, memory
):
    trained = remembering if memory else make_trained(horizon=60)
    scoring = Scoring(
        task=trained.task, bodies=trained.bodies, episodes=3, mode=mode, seed=5, num_threads=1
    )
    whole = [item for items in scoring.run(trained.policy) for item in items]
    wanted = [7, 1, 3]
    for most_rows, simulated in ((256, 3), (5, 9)):  # one of them would wait for a row
        monkeypatch.setattr(chosen, "MAX_ROWS", most_rows)
        seen = Totals()
        play_chosen(scoring, trained.policy, wanted, (seen,))
        assert seen.rows == simulated
        for number in wanted:
            assert seen.totals[number] == whole[number].episode_return
            assert seen.lengths[number] == whole[number].length
    assert np.ptp([whole[number].length for number in wanted]) > 0 or memory
