"""Residuals counted during an evaluation, against all of them kept."""

from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain, linkage
from gmc_bench.evaluation import loops as module
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.evaluation.evaluate import Scoring
from gmc_bench.evaluation.loops import LoopMonitor, make_loop_monitor
from gmc_bench.policies.policy import Policy

BODIES = (linkage(1), chain(3), linkage(2, "weld"))


@pytest.fixture
def looped(make_trained):
    return make_trained(horizon=40, bodies=BODIES, max_limbs=9)


class Keeper(LoopMonitor):
    """Keeps every residual as well."""

    def __init__(self, count):
        super().__init__(count)
        self.seen = [[] for _ in range(count)]
        self.events = 0

    def stepped(self, core, numbers, actions, step):
        super().stepped(core, numbers, actions, step)
        for row in np.flatnonzero(numbers >= 0):
            body = core.morphology_index[row]
            self.seen[body] += core.simulator.loop_residual[row, : len(BODIES[body].loops)].tolist()
            self.events += step.loops_opened[row]


def score(trained, monitor, order="dfs", **options):
    scoring = Scoring(
        task=trained.task, bodies=trained.bodies, episodes=2, mode="stochastic", seed=3,
        num_threads=1, **options,
    )  # fmt: skip
    policy = Policy(trained.model, trained.normalizer, order=order)
    return scoring.run(policy, [monitor] if monitor else [])


def test_histograms_give_the_quantiles_of_all_residuals(looped):
    keeper = Keeper(3)
    score(looped, keeper)
    for body in (0, 2):
        every, found = np.array(keeper.seen[body]), keeper.residual(body)
        assert found.samples == len(every)
        assert found.largest == every[:, 0].max()
        assert found.largest_angle == every[:, 1].max()
        for quantile, name in ((0.5, "median"), (0.999, "percentile_99_9")):
            exact = np.quantile(every[:, 0], quantile, method="inverted_cdf")
            assert exact <= getattr(found, name) <= 1.081 * exact
    assert keeper.residual(0).largest_angle == 0.0 < keeper.residual(2).largest_angle
    assert keeper.residual(1) is None
    assert keeper.opened.sum() == keeper.events


def test_rows_without_an_episode_and_broken_simulations_are_not_counted():
    """By hand: the first body has one loop, the second one two; a residual is gap and angle."""
    monitor = LoopMonitor(2)
    core = SimpleNamespace(
        morphology_index=np.array([0, 1, 1, 0]),
        table=SimpleNamespace(loops=np.array([[[1, 2], [-1, -1]], [[1, 2], [3, 4]]])),
        simulator=SimpleNamespace(
            loop_residual=np.array(
                [
                    [[0.1, 0.0], [9.0, 9.0]],  # there is no second loop
                    [[0.2, 0.3], [0.4, 0.1]],
                    [[7.0, 7.0], [7.0, 7.0]],
                    [[8.0, 8.0], [8.0, 8.0]],
                ]
            )
        ),
    )
    step = SimpleNamespace(
        diverged=np.array([False, False, True, False]), loops_opened=np.array([1, 2, 5, 3])
    )
    monitor.stepped(core, np.array([4, 0, 1, -1]), None, step)
    one, two = monitor.residual(0), monitor.residual(1)
    assert (one.largest, one.largest_angle, one.opened, one.samples) == (0.1, 0.0, 1, 1)
    assert (two.largest, two.largest_angle, two.opened, two.samples) == (0.4, 0.3, 2, 2)


def test_episodes_of_one_body_may_open_loops_in_one_step():
    monitor = LoopMonitor(1)
    core = SimpleNamespace(
        morphology_index=np.zeros(3, np.int64),
        table=SimpleNamespace(loops=np.array([[[1, 2]]])),
        simulator=SimpleNamespace(loop_residual=np.full((3, 1, 2), 0.1)),
    )
    step = SimpleNamespace(diverged=np.zeros(3, bool), loops_opened=np.array([1, 0, 1]))
    monitor.stepped(core, np.arange(3), None, step)
    assert monitor.residual(0).opened == 2


def test_openings_are_counted_per_body(looped, monkeypatch):
    monkeypatch.setattr("gmc_bench.envs.core.OPEN", 1e-4)
    monitor = make_loop_monitor(BODIES)
    score(looped, monitor)
    assert monitor.opened[0] > 0 < monitor.opened[2]
    assert monitor.opened[1] == 0
    assert monitor.residual(0).opened == monitor.opened[0]


def test_watching_changes_no_number(looped):
    assert score(looped, None) == score(looped, make_loop_monitor(BODIES))


def test_what_lies_beyond_the_bins_is_counted_with_the_outermost():
    monitor = LoopMonitor(2)
    core = SimpleNamespace(
        morphology_index=np.arange(2),
        table=SimpleNamespace(loops=np.array([[[1, 2]]] * 2)),
        simulator=SimpleNamespace(loop_residual=np.array([[[0.0, 0.0]], [[1e6, 0.0]]])),
    )
    step = SimpleNamespace(diverged=np.zeros(2, bool), loops_opened=np.array([0, 1]))
    monitor.stepped(core, np.arange(2), None, step)
    assert np.argwhere(monitor.counts).tolist() == [[0, 0], [1, module.NUM_BINS - 1]]
    assert (monitor.residual(0).median, monitor.residual(0).percentile_99_9) == (0.0, 0.0)
    assert monitor.residual(1).median == pytest.approx(module._HIGHEST)


def test_bodies_without_loops_have_no_monitor():
    assert make_loop_monitor(BODIES[1:2]) is None


def test_bodies_with_loops_are_scored_with_an_unseen_limb_and_in_other_orders(looped):
    silent = draw_silent_limbs(BODIES, 0)
    plain = score(looped, None)
    assert score(looped, None, silent_limbs=silent) != plain
    assert [len(items) for items in score(looped, None, order="bfs")] == [2, 2, 2]
