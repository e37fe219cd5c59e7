"""Episodes played without the others: the same bits as in the whole evaluation."""

import numpy as np
import pytest

from gmc_bench.evaluation import episode_subset, evaluate
from gmc_bench.evaluation.episode_subset import play_subset, schedule_of
from gmc_bench.evaluation.evaluate import EpisodeCounter, Observer, Scoring
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.tasks.unimal_obstacles import TASK as OBSTACLES
from tests.support.slow import slow_but


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


@pytest.mark.parametrize(
    ("memory", "mode"),
    slow_but(
        [(memory, mode) for memory in (False, True) for mode in ("deterministic", "stochastic")],
        (False, "stochastic"),
        (True, "deterministic"),
    ),
)
def test_chosen_episodes_have_the_bits_of_the_whole_evaluation(
    make_trained, remembering, monkeypatch, mode, memory
):
    trained = remembering if memory else make_trained(horizon=60)
    scoring = Scoring(
        task=trained.task, bodies=trained.bodies, episodes=3, mode=mode, seed=5, num_threads=1
    )
    wanted, wholes = [7, 1, 3], {}
    # Lengths of another number of episodes are none.
    for most_rows, lengths, simulated in ((256, 0, 3), (5, 0, 5), (5, 8, 5), (5, 9, 1)):
        for module in (episode_subset, evaluate):
            monkeypatch.setattr(module, "MAX_ROWS", most_rows)
        if most_rows not in wholes:
            wholes[most_rows] = [item for items in scoring.run(trained.policy) for item in items]
        whole = wholes[most_rows]
        seen, ended = Totals(), []
        known = [item.length for item in whole][:lengths] or None
        observers = (seen, EpisodeCounter(ended.append))
        options = {"lengths": known, "try_fewer_rows": most_rows == 5}  # only where all fit
        assert not play_subset(scoring, trained.policy, wanted, observers, **options)
        assert seen.rows == simulated  # of the last part: of five rows, number 7 waits for one
        assert sum(ended) == len(seen.totals) == (9 if simulated == 5 else 3)
        for number in wanted:
            assert seen.totals[number] == whole[number].episode_return
            assert seen.lengths[number] == whole[number].length
    assert np.ptp([whole[number].length for number in wanted]) > 0 or memory


def test_chosen_episodes_show_as_little_as_the_whole_evaluation(make_trained):
    trained = make_trained(horizon=60)
    options = {"task": trained.task, "bodies": trained.bodies, "episodes": 3, "num_threads": 1}
    scoring = Scoring(**options, seed=5, silent_limbs=np.array([1, 2, 1]))
    whole, plain = (
        [item.episode_return for items in rules.run(trained.policy) for item in items]
        for rules in (scoring, Scoring(**options, seed=5))
    )
    seen = Totals()
    play_subset(scoring, trained.policy, [7, 1, 3], (seen,))
    assert sorted(seen.totals) == [1, 3, 7]
    for number, total in seen.totals.items():
        assert total == whole[number] != plain[number]


def test_chosen_episodes_see_the_ground_that_they_are_on(make_trained):
    trained = make_trained(horizon=20, task=OBSTACLES)
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=3, seed=5, num_threads=1)
    whole = [item.episode_return for items in scoring.run(trained.policy) for item in items]
    seen = Totals()
    play_subset(scoring, trained.policy, [7, 1, 3], (seen,))
    assert seen.totals == {number: whole[number] for number in (1, 3, 7)}


def test_episodes_that_end_together_are_all_counted(make_trained):
    trained, ended = make_trained(horizon=2), []
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=3, seed=5, num_threads=1)
    scoring.run(trained.policy, (EpisodeCounter(ended.append),))
    play_subset(scoring, trained.policy, [7, 1, 3], (EpisodeCounter(ended.append),))
    assert ended == [9, 3]


def test_the_schedule_is_that_of_the_evaluation(make_trained, monkeypatch):
    trained = make_trained(horizon=60)
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=4, seed=3, num_threads=1)
    monkeypatch.setattr(evaluate, "MAX_ROWS", 3)
    begun = {}

    class Begins(Totals):
        steps = 0

        def started(self, core, rows, numbers):
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                begun[number] = (row, self.steps)

        def stepped(self, *seen):
            self.steps += 1

    whole = [item for items in scoring.run(trained.policy, (Begins(),)) for item in items]
    schedule = schedule_of([item.length for item in whole], 3)
    assert len(set(schedule.start.tolist())) > 3
    for number, (row, start) in begun.items():
        assert (schedule.row[number], schedule.start[number]) == (row, start)


def test_other_rows_show_the_bodies_that_they_show_in_the_evaluation(make_trained, monkeypatch):
    """From the step on in which an episode begins there that nobody plays."""
    trained = make_trained(horizon=60)
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=2, seed=5, num_threads=1)
    for module in (episode_subset, evaluate):
        monkeypatch.setattr(module, "MAX_ROWS", 3)
    shown, act = [], BoundPolicy.act

    def note(self, stage, pick=None):
        shown.append((stage.morphology_index.copy(), self.sequences.copy()))
        return act(self, stage, pick)

    monkeypatch.setattr(BoundPolicy, "act", note)
    lengths = [item.length for items in scoring.run(trained.policy) for item in items]
    whole, schedule = shown.copy(), schedule_of(lengths, 3)
    for number, start in enumerate(schedule.start.tolist()):
        shown.clear()
        play_subset(scoring, trained.policy, [number], (), lengths=lengths)
        np.testing.assert_array_equal(shown, whole[start : start + lengths[number]])


@pytest.mark.parametrize("memory", [False, True])
def test_fewer_rows_are_shown_only_where_they_give_the_same_bits(
    make_trained, remembering, monkeypatch, memory
):
    trained = remembering if memory else make_trained(horizon=60)
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=3, seed=5, num_threads=1)
    whole = [item for items in scoring.run(trained.policy) for item in items]
    shown = []
    act = BoundPolicy.act

    def count(self, stage, pick=None):
        shown.append(len(stage.dynamic))
        found = act(self, stage, pick)
        trial = shown.count(len(stage.dynamic))
        return found + error if len(stage.dynamic) < 9 and trial == 3 else found

    monkeypatch.setattr(BoundPolicy, "act", count)
    monkeypatch.setattr(episode_subset, "FEWER_ROWS", (2, 3, 6))
    for error, rows in ((np.float32(0.0), 3), (np.float32(0.01), 9)):  # noqa: B007 - see `count`
        seen = Totals()
        shown.clear()
        fewer = play_subset(scoring, trained.policy, [7, 1, 3], (seen,), try_fewer_rows=True)
        assert shown[-1] == rows
        assert fewer == (rows < 9)
        assert sorted(seen.totals) == [1, 3, 7]
        for number, total in seen.totals.items():
            assert total == whole[number].episode_return


@pytest.mark.parametrize("lengths", [False, True])
def test_who_has_seen_enough_ends_what_is_played_together(make_trained, monkeypatch, lengths):
    trained = make_trained(horizon=60)
    scoring = Scoring(task=trained.task, bodies=trained.bodies, episodes=3, seed=5, num_threads=1)
    for module in (episode_subset, evaluate):
        monkeypatch.setattr(module, "MAX_ROWS", 5)
    whole = [item.length for items in scoring.run(trained.policy) for item in items]

    class Enough(Totals):
        def stepped(self, *seen):
            super().stepped(*seen)
            if max(self.lengths.values()) == 4:
                self.lengths.clear()
                raise episode_subset.EnoughError

    seen = Enough()
    play_subset(scoring, trained.policy, [7, 1, 3], (seen,), lengths=whole if lengths else None)
    # Number 7 begins later: with known lengths it is played by itself.
    assert sorted(seen.totals) == ([1, 3, 7] if lengths else [0, 1, 2, 3, 4])
