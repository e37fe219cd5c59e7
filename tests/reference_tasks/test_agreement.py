"""The batched tasks against the plain ones: the same starts, the same actions, the same numbers."""

import math

import mujoco
import numpy as np
import pytest

from tests.reference_tasks.plain_task import CONTEXT, DYNAMIC, NUM_HEIGHTS, RULES, PlainTask
from tests.support.slow import slow_but

TOLERANCE = 1e-5
FLAT = [name for name, rules in RULES.items() if rules.x_range is None]
MAPPED = [name for name, rules in RULES.items() if rules.x_range is not None]
HALF = math.sqrt(0.5)
ORIENTATIONS = {
    "0 degrees": (1.0, 0.0, 0.0, 0.0),
    "30 degrees": (math.cos(math.pi / 12), 0.0, 0.0, math.sin(math.pi / 12)),
    "90 degrees": (HALF, 0.0, 0.0, HALF),
    "180 degrees": (0.0, 0.0, 0.0, 1.0),
    "upside down": (0.0, 1.0, 0.0, 0.0),
    "upside down, backwards": (0.0, 0.0, 1.0, 0.0),
    "tilted": (0.8, 0.36, 0.48, 0.0),
}


class Pair:
    """One row per body on the batched path, and the same bodies one by one."""

    def __init__(self, name, bodies, make_core):
        self.core = make_core(name, bodies)
        self.bodies = bodies
        self.plain = [
            PlainTask(name, self.core.simulator.model(row), body.limbs[0].position[2])
            for row, body in enumerate(bodies)
        ]
        self.num_metrics = 0 if name == "unimal-ft-v1" else 1
        self.ended = dict.fromkeys(("fell", "edge"), 0)
        self.compared = self.level = self.total = 0
        for row in range(len(bodies)):
            self.start(row)

    def start(self, row):
        """Begin the plain episode where the batched one began."""
        data = self.core.simulator.data(row)
        self.plain[row].use_model(self.core.simulator.model(row))
        tokens, heights = self.plain[row].reset_from(data.qpos, data.qvel)
        self.compare_observation(row, tokens, heights, f"the start of {self.bodies[row].name}")

    def reset(self, row):
        self.core.reset(np.array([row]), np.array([row]))
        self.start(row)

    def move(self, row, position, orientation):
        """Put a body somewhere in its scene, at rest, on both sides; the episode goes on."""
        simulator, plain = self.core.simulator, self.plain[row]
        visited = plain.visited
        model, data = simulator.model(row), simulator.data(row)
        mujoco.mj_resetData(model, data)
        data.qpos[:3] = position
        data.qpos[3:7] = orientation
        mujoco.mj_forward(model, data)
        simulator.torso_position[row] = data.xpos[1]
        plain.reset_from(data.qpos, data.qvel)
        plain.visited = visited

    def step(self, actions, where):
        result = self.core.step(actions)
        for row, plain in enumerate(self.plain):
            body = f"{where}, {self.bodies[row].name}"
            expected = plain.step(actions[row])
            assert result.reward[row] == pytest.approx(expected.reward, abs=TOLERANCE), body
            assert self._reasons(result, row) == expected.reasons, body
            assert result.terminated[row] == bool(expected.reasons), body
            assert len(result.metrics) == self.num_metrics, body
            for found in result.metrics.values():
                assert found[row] == pytest.approx(expected.metric, abs=TOLERANCE), body
            self.compare_observation(row, expected.tokens, expected.heights, body)
            for reason in expected.reasons:
                self.ended[reason] += 1
        return result

    def _reasons(self, result, row):
        found = {name for name, rows in result.events.items() if rows[row]}
        assert not found & {"diverged", "time_limit"}
        return {"fell" if name == "fell" else "edge" for name in found}

    def compare_observation(self, row, tokens, heights, where):
        found = self.core.dynamic[row][: len(tokens)]
        np.testing.assert_allclose(
            found, tokens[:, DYNAMIC], rtol=TOLERANCE, atol=TOLERANCE, err_msg=where
        )
        assert not self.core.dynamic[row][len(tokens) :].any(), where
        if heights is None:
            assert self.core.height_map is None
            return
        plain = self.plain[row]
        certain, level = plain.certain_heights(), plain.level_heights()
        np.testing.assert_allclose(
            self.core.height_map[row][certain],
            heights[certain],
            rtol=TOLERANCE,
            atol=TOLERANCE,
            err_msg=where,
        )
        self.compared += int(certain.sum())
        self.level += int((certain & level).sum())
        self.total += NUM_HEIGHTS

    def actions(self, random):
        spec = self.core.spec
        shape = (len(self.bodies), spec.max_limbs, spec.joints_per_limb)
        return random.uniform(-1.5, 1.5, shape).astype(np.float32)


def roll_out(pair, num_steps):
    random = np.random.default_rng(0)
    for step in range(num_steps):
        result = pair.step(pair.actions(random), f"step {step}")
        for row in np.flatnonzero(result.terminated):
            pair.reset(int(row))


@pytest.mark.parametrize("name", slow_but(RULES, "unimal-vt-v1", *FLAT))
def test_random_steps(name, bodies, make_core):
    pair = Pair(name, bodies, make_core)
    roll_out(pair, 120)
    # Such bodies fall quickly, so that many starts are compared; the incline forgives more.
    assert pair.ended["fell"] > 3
    if name in MAPPED:
        assert pair.level > 0.8 * pair.total


@pytest.mark.parametrize("name", slow_but(RULES, *FLAT))
def test_random_steps_of_published_bodies(name, published_bodies, make_core):
    pair = Pair(name, published_bodies, make_core)
    roll_out(pair, 80)
    if name in MAPPED:
        assert pair.level > 0.8 * pair.total


@pytest.mark.parametrize("name", RULES)
def test_context(name, bodies, make_core):
    pair = Pair(name, bodies, make_core)
    for row, plain in enumerate(pair.plain):
        tokens = plain.tokens()
        np.testing.assert_allclose(
            pair.core.table.context[row][: len(tokens)], tokens[:, CONTEXT], atol=1e-6
        )


@pytest.mark.parametrize("name", slow_but(RULES, *FLAT))
def test_orientations(name, bodies, make_core):
    """Places all over the terrain, also near and beyond its ends, other ones for each."""
    pair = Pair(name, bodies[2:4], make_core)
    random = np.random.default_rng(7)
    for orientation in ORIENTATIONS:
        visit(pair, orientation, 5, random)
    if name in MAPPED:
        assert pair.compared > 0.9 * pair.total


@pytest.mark.slow
@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("name", MAPPED)
def test_height_maps_all_over_many_terrains(name, orientation, bodies, make_core):
    pair = Pair(name, bodies[:2], make_core)
    for _ in range(3):
        visit(pair, orientation, 40, np.random.default_rng(7))
        for row in range(2):
            pair.reset(row)
    assert pair.compared > 0.9 * pair.total


def visit(pair, orientation, num_places, random):
    west, east = pair.plain[0].rules.x_range or (-76.0, 101.0)
    for place in range(num_places):
        x, y = random.uniform(west - 3.0, east + 3.0), random.uniform(-20.5, 20.5)
        for row in range(len(pair.plain)):
            pair.move(row, (x, y, 8.0), ORIENTATIONS[orientation])
        pair.step(pair.actions(random), f"{orientation}, place {place} at {x:.3f}, {y:.3f}")


@pytest.mark.parametrize("name", MAPPED)
def test_a_torso_without_heading_has_a_map(name, bodies, make_core):
    """Its x axis points straight up."""
    pair = Pair(name, bodies[:1], make_core)
    pair.move(0, (10.0, 0.0, 8.0), (HALF, 0.0, -HALF, 0.0))
    pair.core.step(np.zeros_like(pair.actions(np.random.default_rng(0))))
    assert np.isfinite(pair.core.height_map).all()


@pytest.mark.parametrize("name", [name for name, rules in RULES.items() if rules.lateral_end])
def test_the_sides_end_an_episode(name, bodies, make_core):
    pair = Pair(name, bodies[:2], make_core)
    ended = []
    for y in (-19.001, -18.999, 18.999, 19.001):
        for row in range(2):
            pair.move(row, (-30.0 if name == "unimal-incline-v1" else 2.0, y, 8.0), (1, 0, 0, 0))
        ended.append(pair.step(0 * pair.actions(np.random.default_rng(0)), f"y = {y}").terminated)
    assert np.array_equal(ended, [[True, True], [False, False], [False, False], [True, True]])


def test_exploration_walks_over_many_cells(bodies, make_core):
    """Placed from cell to cell, so that old and new ones and the walls all occur."""
    pair = Pair("unimal-exploration-v1", bodies[:2], make_core)
    random = np.random.default_rng(1)
    rewards = []
    for step in range(120):
        x, y = (random.uniform(40.0, 47.0), random.uniform(-4.0, 4.0))
        if step % 10 == 0:
            x, y = random.uniform(-2.0, 102.0), random.uniform(-52.0, 52.0)
        for row in range(2):
            pair.move(row, (x, y, 8.0), (1.0, 0.0, 0.0, 0.0))
        rewards.append(pair.step(pair.actions(random), f"step {step}").reward)
    found = np.array(rewards)
    assert set(np.unique(found)) == {0.0, 1.0}
    assert (found.sum(axis=0) == [len(plain.visited) for plain in pair.plain]).all()
