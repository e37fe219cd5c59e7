"""Roll-outs on three frictions: policies whose outcome is known, and what must not matter."""

from dataclasses import dataclass, replace

import mujoco
import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.bodies import tabulate
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation import friction as module
from gmc_bench.evaluation.friction import measure_friction
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.robots import GO1, GO2
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair, sliding_speeds
from gmc_bench.robots.mjcf import build_mjcf
from gmc_bench.robots.original import read_original
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.suites.measured import DIRECTIONS, FrictionMeasurement
from gmc_bench.suites.quadruped import SUITE
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.quadruped_velocity import TASK, undisturbed
from gmc_bench.tokens.spec import TokenSpec

SPEC = TokenSpec(12, 1, parts="actuators")
PATIENCE = 30
NOMINAL = FRICTION_PAIRS["nominal"]


@dataclass(frozen=True, kw_only=True)
class PushConfig:
    push: float = 0.0
    """What every action is, beside a little that depends on the observation."""
    gain: float = 0.0
    """How much that is."""


class Push(nn.Module):
    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.config = config
        self.layer = nn.Linear(spec.num_features, num_outputs)

    def forward(self, tokens):
        return self.config.push + self.config.gain * self.layer(tokens.features)


class Patience(nn.Module):
    """Stands for `PATIENCE` steps of its memory, then throws its legs far from the stance."""

    sequence_length, state_width = 1, 1

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.num_outputs = num_outputs

    def forward(self, tokens, history):
        state = history.state.masked_fill(history.starts[0, :, None, None], 0.0) + 1.0
        push = 4.0 * (state > PATIENCE)
        return push.expand(-1, -1, self.num_outputs), state


PUSH = MethodSpec(id="push", config=PushConfig, builder=Push)
PATIENT = MethodSpec(
    id="patient", config=PushConfig, builder=Patience, capabilities=Capabilities(temporal=True)
)


@pytest.fixture(scope="module")
def bodies():
    return load_morphologies("quadrupeds").split("train")


_NORMALIZERS = {}


def policy(bodies, method=PUSH, **settings):
    torch.manual_seed(0)
    model = ActorCritic(method, PushConfig(**settings), SPEC)
    return Policy(model, _normalizer(bodies))


def _normalizer(bodies):
    """Compiling robots takes longer than most of what is measured here; nothing changes it."""
    key = tuple(body.digest for body in bodies)
    if key not in _NORMALIZERS:
        _NORMALIZERS[key] = TokenNormalizer(tabulate(TASK, bodies, SPEC))
    return _NORMALIZERS[key]


def measure(bodies, *, settings=None, seed=3, on_progress=None, **options):
    usual = {"forward": 0.5, "seconds": 1.0, "num_envs": 2, "directions": {}}
    return measure_friction(
        policy(bodies, **(settings or {})),
        TASK,
        bodies,
        FrictionMeasurement(**{**usual, **options}),
        seed=seed,
        num_threads=1,
        on_progress=on_progress,
    )


def test_who_stands_still_has_the_command_as_error_and_never_falls(bodies):
    results = measure(bodies, pairs={"nominal": FRICTION_PAIRS["nominal"]}, seconds=3.0)
    assert [item["robot"] for item in results] == ["go1", "go2", "anymal-b", "anymal-c"]
    for item in results:
        found = item["restarts"]
        assert found["velocity_rmse"] == pytest.approx(0.5, abs=0.03)
        assert abs(found["progress"]) < 0.05
        assert (found["falls"], found["fall_rate"], found["episodes"]) == (0, 0.0, 2)
        assert found["tilt_rms"] < 3.0
        assert item["single_life"]["fall_rate"] == 0.0


def test_every_direction_is_asked_for_on_one_friction(bodies):
    """Who stands still has what each command asks for as its error, beside a little settling."""
    results = measure(bodies[:1], seconds=2.0, directions=DIRECTIONS)
    found = {item["direction"]: item for item in results[3:]}
    assert list(found) == list(DIRECTIONS)
    assert {item["friction"] for item in results[3:]} == {"nominal"}
    for name, command in DIRECTIONS.items():
        item, metrics = found[name], found[name]["restarts"]
        speed, turn = np.hypot(*command[:2]), abs(command[2])
        assert tuple(item["command"]) == command
        assert metrics["velocity_rmse"] == pytest.approx(speed, abs=0.1)
        assert metrics["turn_rmse"] == pytest.approx(turn, abs=0.1)
        assert metrics["progress"] == (None if turn else pytest.approx(0.0, abs=0.05))
        assert item["heading"] == ("free" if turn else "held")
    only_high = measure(bodies[:1], pairs={"high": FRICTION_PAIRS["high"]}, directions=DIRECTIONS)
    assert [item["direction"] for item in only_high] == [None]


def test_progress_is_towards_where_the_command_points(bodies):
    # A robot that is told to go to its left and drifts has the distance along its left.
    options = {"settings": {"gain": 4.0}, "seconds": 1.0, "pairs": {"nominal": NOMINAL}}
    left, right = (
        measure(bodies[:1], **options, directions={"aside": (0.0, speed, 0.0)})[1]
        for speed in (1e-9, -1e-9)
    )
    assert left["restarts"]["progress"] == pytest.approx(-right["restarts"]["progress"], abs=1e-6)
    assert abs(left["restarts"]["progress"]) > 1e-3


def test_a_track_is_what_the_engine_did(bodies, monkeypatch):
    """Positions and velocities of three episodes of five steps, read by hand at every step."""
    tracks, low = [], FRICTION_PAIRS["low"]
    monkeypatch.setattr(module, "make_result", lambda track, *_: tracks.append(track) or {})
    monkeypatch.setattr(module, "EPISODE_SECONDS", 0.1)
    directions = {"aside": (0.0, 0.3, 0.0), "about": (-0.3, 0.4, 0.5)}
    rules = FrictionMeasurement(
        pairs={"low": low}, direction_pair="low", directions=directions, forward=0.5,
        seconds=0.3, num_envs=1,
    )  # fmt: skip
    acts, both = policy(bodies[:2], gain=4.0), np.arange(2)
    measure_friction(acts, TASK, bodies[:2], rules, seed=3, num_threads=1)
    assert len(tracks) == 3 * 2
    for number, (_, _, command) in enumerate(rules.conditions):
        wanted = VelocityCommand.fixed(*command, held=not command[2])
        task = replace(undisturbed(TASK, low, wanted), horizon=5)
        core = EnvironmentCore(task, bodies[:2], 2, token_spec=SPEC, num_threads=1)
        core.simulator.streams[:] = spawn_streams(3, 2)
        core.reset(both, both)
        with acts.acting():
            bound = acts.on(core.table, 2)
            bound.start(both, both)
            for step in range(15):
                before = [core.simulator.data(row).qpos[:2].copy() for row in both]
                turn = core.command[:, 2].copy()
                core.step(bound.act(core))
                for row in both:
                    track = tracks[2 * number + row]
                    found = {name: getattr(track, name)[step, 0] for name in ("velocity", *NUMBERS)}
                    expected = plain_step(core, row, before[row], turn[row], command)
                    for name, value in expected.items():
                        np.testing.assert_allclose(found[name], value, atol=1e-9, err_msg=name)
                    assert not track.fell[step, 0]
                    assert not track.diverged[step, 0]
                    assert track.time_up[step, 0] == (step % 5 == 4)
                if step % 5 == 4:
                    core.reset(both, both)
                    bound.start(both, both)
    assert all(getattr(track, name).any() for track in tracks for name in NUMBERS)


NUMBERS = ("advance", "walked", "slipped", "tilt", "astray")


def plain_step(core, row, before, turn, command):
    """Return what a control step adds to a track, of a robot that headed along x at its start."""
    data, simulator = core.simulator.data(row), core.simulator
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, data.qpos[3:7])
    (a, _, _), (b, _, _), (_, _, upright) = matrix.reshape(3, 3)
    yaw, moved = np.arctan2(b, a), data.qpos[:2] - before
    forward, left = np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])
    geoms = simulator.models[simulator.model_index[row]].robot.foot_geoms
    loaded = simulator.drive_state.contacts[row, :4] > 1.0
    feet = [geom for geom, on_ground in zip(geoms, loaded, strict=True) if on_ground]
    return {
        "velocity": [data.qvel[:2] @ forward, data.qvel[:2] @ left],
        "advance": moved @ command[:2] / np.hypot(*command[:2]),
        "walked": np.hypot(*moved),
        "slipped": 0.02 * sliding_speeds(simulator.model(row), data, feet).sum(),
        "tilt": np.arccos(upright),
        "astray": data.qvel[5] - turn,
    }


def test_times_are_whole_control_steps():
    # 0.58 / 0.02 is 28.999999999999996
    assert [TASK.control_steps(seconds) for seconds in (0.001, 0.58, 20.0)] == [1, 29, 1000]
    assert module.EPISODE_SECONDS == 20.0


def test_a_fall_is_forgotten(bodies):
    """Who remembered that it had lost its patience would throw itself over at once."""
    pairs = {"high": FRICTION_PAIRS["high"]}
    steps = 200
    (found,) = measure(
        bodies[:1], settings={"method": PATIENT}, pairs=pairs, seconds=0.02 * steps, num_envs=1
    )
    assert found["restarts"]["falls"] > 2
    assert found["restarts"]["falls"] * PATIENCE < steps


def test_a_simulation_that_breaks_counts_as_a_fall(bodies, monkeypatch):
    """One of two robots breaks in its fourth and eighth step of ten."""
    step = EnvironmentCore.step

    def breaking(core, *args):
        if core.episode_length[0] == 3:
            core.simulator.data(0).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
        return step(core, *args)

    monkeypatch.setattr(EnvironmentCore, "step", breaking)
    (found,) = measure(bodies[:1], pairs={"nominal": NOMINAL}, seconds=0.2)
    metrics = found["restarts"]
    assert (metrics["diverged"], metrics["falls"], metrics["episodes"]) == (2, 2, 3)
    assert found["single_life"]["fall_rate"] == 50.0


def test_who_starts_again_is_the_robot_that_it_was(bodies, monkeypatch):
    """The second of two breaks in its fourth step; the first goes on."""
    act, hosted = BoundPolicy.act, []

    def breaking(bound, core):
        hosted.append((*core.morphology_index.tolist(), *bound.sequences.tolist()))
        if core.episode_length[1] == 3:
            core.simulator.data(1).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
        return act(bound, core)

    monkeypatch.setattr(BoundPolicy, "act", breaking)
    found = measure(bodies[:2], pairs={"nominal": NOMINAL}, seconds=0.14, num_envs=1)
    assert hosted == [(0, 1, 0, 1)] * 7
    assert [item["restarts"]["diverged"] for item in found] == [0, 1]


def test_results_come_friction_by_friction_with_the_rule_they_were_made_with(bodies):
    results = measure(bodies[:1], rule="dynamic", seconds=0.1)
    assert [(item["friction"], item["dynamic"]) for item in results] == [
        ("low", 0.2), ("nominal", 0.6), ("high", 1.0),
    ]  # fmt: skip
    assert {item["rule"] for item in results} == {"dynamic"}
    assert [item["seconds"] for item in results] == pytest.approx([0.1] * 3)


def test_the_rule_decides_which_coefficient_acts(bodies):
    """As if the pair had this one alone; the policy shakes its legs, so that feet slide."""

    def found(static, dynamic, **options):
        pairs = {"odd": FrictionPair(static=static, dynamic=dynamic)}
        options = {"settings": {"gain": 8.0}, "seconds": 0.2, "pairs": pairs, **options}
        return measure(bodies[:1], **options)[0]["restarts"]

    low, high = found(0.2, 0.2), found(0.8, 0.8)
    assert low != high
    assert found(0.8, 0.2, rule="dynamic") == low
    assert found(0.8, 0.2, rule="static") == high


def test_who_falls_starts_again_and_every_fall_counts(bodies):
    # Legs far from the stance throw every robot over.
    pairs = {"high": FRICTION_PAIRS["high"]}
    go1 = measure(bodies[:1], settings={"push": 4.0}, pairs=pairs, seconds=4.0)[0]
    assert go1["restarts"]["falls"] > go1["num_envs"]  # several lives each
    assert go1["restarts"]["falls"] <= go1["restarts"]["episodes"]
    assert go1["single_life"]["fall_rate"] == 100.0
    assert go1["single_life"]["velocity_rmse"] != go1["restarts"]["velocity_rmse"]


def test_the_same_seed_gives_the_same_numbers_however_rows_are_split(bodies, monkeypatch):
    options = {"settings": {"gain": 2.0}, "seconds": 0.4, "pairs": {"low": FRICTION_PAIRS["low"]}}
    first = measure(bodies[:2], **options)
    assert measure(bodies[:2], **options) == first
    assert measure(bodies[:2], **options, seed=4) != first
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    for split, whole in zip(measure(bodies[:2], **options), first, strict=True):
        split, whole = split["restarts"], whole["restarts"]
        for name in ("velocity_rmse", "progress", "tilt_rms", "slipped"):
            # The last bits of a network's output depend on the batch.
            assert split[name] == pytest.approx(whole[name], rel=1e-3, abs=1e-4), name


def test_the_command_holds_the_heading_unless_it_is_to_be_left_alone(bodies):
    # A policy that does something else for every observation, the commanded yaw rate included.
    options = {"settings": {"gain": 4.0}, "seconds": 0.5, "pairs": {"low": FRICTION_PAIRS["low"]}}
    held = measure(bodies[:1], **options)
    free = measure(bodies[:1], **options, heading="free")
    assert (held[0]["heading"], free[0]["heading"]) == ("held", "free")
    assert held[0]["restarts"] != free[0]["restarts"]
    assert held == measure(bodies[:1], **options, heading="held")


def test_bodies_of_another_origin_are_named(bodies):
    spec = mujoco.MjSpec.from_string(build_mjcf(GO2))
    spec.body("base").mass *= 1.5
    other = read_original(GO2, spec, "go2.xml")
    pairs = {"nominal": FRICTION_PAIRS["nominal"]}
    ours, theirs = measure([GO2, other], pairs=pairs, seconds=0.5)
    assert (ours["robot"], ours["robot_origin"]) == ("go2", "built-in")
    assert (theirs["robot"], theirs["robot_origin"]) == ("go2", "go2.xml")
    assert ours["robot_digest"] != theirs["robot_digest"]
    assert ours["restarts"] != theirs["restarts"]


def test_separate_weights_control_the_robot_of_training_from_another_file_alone():
    table = tabulate(TASK, [GO2], SPEC)
    mlp = Policy.of_table("mlp", table, config={"hidden": [4]})
    other = read_original(GO2, mujoco.MjSpec.from_string(build_mjcf(GO2)), "go2.xml")
    assert other.digest != GO2.digest
    options = FrictionMeasurement(
        forward=0.5, seconds=0.1, num_envs=1, directions={}, pairs={"nominal": NOMINAL}
    )
    (found,) = measure_friction(mlp, TASK, [other], options, seed=3, num_threads=1)
    assert found["robot_origin"] == "go2.xml"
    with pytest.raises(ConfigError, match="has separate weights for 1 bodies"):
        measure_friction(mlp, TASK, [GO1], options, seed=3, num_threads=1)


def test_noise_is_off_unless_asked_for(bodies):
    options = {"settings": {"gain": 2.0}, "seconds": 0.2, "pairs": {"low": FRICTION_PAIRS["low"]}}
    assert measure(bodies[:1], **options, noise=True) != measure(bodies[:1], **options)


def test_feet_slide_further_where_friction_is_low(bodies):
    # A policy that shakes its legs.
    low, _, high = measure(bodies[:1], settings={"gain": 8.0}, seconds=1.0)
    assert low["restarts"]["slipped"] > high["restarts"]["slipped"] > 0.0


def test_progress_is_reported_while_measuring(bodies):
    seen = []
    measure(bodies[:2], seconds=0.1, on_progress=seen.append)
    assert sum(seen) == 3 * 2 * 2 * 5  # frictions, robots, environments, steps


def test_every_protocol_of_the_suite_says_how_much_is_measured():
    assert set(SUITE.protocols) == set(SUITE.measurements)
    assert SUITE.measurements["paper"].forward == 1.0
    assert all(found.pairs == FRICTION_PAIRS for found in SUITE.measurements.values())


def test_nothing_to_measure_is_refused(bodies):
    with pytest.raises(ConfigError, match="at least one environment"):
        measure(bodies[:1], seconds=0.0)
    with pytest.raises(ConfigError, match="at least one body, got none"):
        measure_friction(policy(bodies), TASK, [], SUITE.measurements["smoke"], seed=0)
    with pytest.raises(ConfigError, match="commands no velocities"):
        measure_friction(
            policy(bodies), replace(TASK, command=None), bodies, SUITE.measurements["smoke"], seed=0
        )


def test_a_failure_of_any_name_counts_as_a_fall(bodies):
    named = replace(TASK, terminations=(replace(TASK.terminations[0], name="tumbled"),))
    pairs, options = {"high": FRICTION_PAIRS["high"]}, {"forward": 0.5, "directions": {}}
    rules = FrictionMeasurement(pairs=pairs, seconds=1.0, num_envs=2, **options)
    found, expected = (
        measure_friction(policy(bodies, push=4.0), task, bodies[:1], rules, seed=3, num_threads=1)
        for task in (named, TASK)
    )
    assert found == expected
    assert found[0]["restarts"]["falls"] > 0
