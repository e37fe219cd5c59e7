"""Terms of one's own: more observations, actions in rewards, events, and what bodies lack."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.robots import GO1, GO2
from gmc_bench.sim.model import RoughGround
from gmc_bench.tasks import events
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.quadruped_velocity import TASK as VELOCITY
from gmc_bench.tasks.spec import (
    EventTerm,
    MetricTerm,
    ObservationTerm,
    RewardTerm,
    TerminationTerm,
)
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tasks.unimal_obstacles import TASK as OBSTACLES
from gmc_bench.tasks.velocity_rewards import tilted_base

BODIES = [chain(3), biped()]
ROWS = np.arange(4)


def place(moment):
    """Return where the torso is, the same for all limbs, m."""
    return moment.torso_position[:, None, :2]


def effort(transition):
    """Return the sum of squared actions."""
    return np.square(transition.action).sum(axis=1)


def _core(task, bodies=BODIES):
    core = EnvironmentCore(task, bodies, 4, num_threads=1)
    core.simulator.seed(1)
    core.reset(ROWS, ROWS % len(bodies))
    return core


def _actions(core):
    shape = (4, core.spec.max_limbs, core.spec.joints_per_limb)
    return np.random.default_rng(0).normal(0.0, 0.5, shape).astype(np.float32)


def test_an_observation_is_added_at_the_end_of_the_tokens():
    term = ObservationTerm("place", place, scale=2.0, width=2, unit="0.5 m", frame="world")
    plain, core = _core(TASK), _core(replace(TASK, observations=(term,)))
    assert core.spec.slices[-1].name == "place"
    assert core.spec.num_features == plain.spec.num_features + 2
    for _ in range(3):
        padding = core.table.limb_padding_mask[core.morphology_index]
        np.testing.assert_array_equal(core.dynamic[..., :-2], plain.dynamic)
        expected = np.broadcast_to(
            2.0 * core.simulator.torso_position[:, None, :2], (*padding.shape, 2)
        )
        np.testing.assert_allclose(core.dynamic[~padding, -2:], expected[~padding], rtol=1e-6)
        np.testing.assert_array_equal(core.dynamic[padding], 0.0)
        core.step(_actions(core))
        plain.step(_actions(plain))


def test_an_observation_may_fill_more_slots_than_bodies_have_limbs():
    """A suite gives its layout slots for larger bodies, and actions come for all slots."""

    def sent(moment):
        return moment.action.reshape(len(moment.action), -1, 2)

    task = replace(TASK, observations=(ObservationTerm("sent", sent, width=2),))
    narrow, wide = (
        EnvironmentCore(task, BODIES, 4, token_spec=task.token_spec(slots, 2), num_threads=1)
        for slots in (5, 9)
    )
    actions = np.zeros((4, 9, 2), np.float32)
    actions[:, :5] = np.random.default_rng(0).normal(0.0, 0.5, (4, 5, 2))
    for core in (narrow, wide):
        core.reset(ROWS, ROWS % 2)
        core.step(actions[:, : core.spec.max_limbs])
    assert np.abs(wide.dynamic[..., -2:]).max() > 0.0
    np.testing.assert_array_equal(wide.dynamic[:, :5, -2:], narrow.dynamic[..., -2:])
    np.testing.assert_array_equal(wide.dynamic[:, 5:, -2:], 0.0)


def test_rewards_see_the_actions_of_motors_only():
    core = _core(replace(TASK, rewards=(*TASK.rewards, RewardTerm("effort", -0.1, effort))))
    actions = _actions(core)
    found = core.step(actions).reward_terms["effort"]
    told = ~core.table.action_padding_mask[core.morphology_index]
    applied = np.where(told, np.clip(actions, -1.0, 1.0), 0.0)
    expected = -0.1 * np.square(applied).sum(axis=(1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not told.all()


def test_friction_can_change_from_time_to_time():
    pair = (0.3, 0.2)
    slip = EventTerm(
        "ice", "friction", lambda draw: np.tile(pair, (draw.num_rows, 1)), every=(0.1, 0.1)
    )
    core = _core(replace(VELOCITY, events=(slip,)), [GO1, GO2])
    for step in range(1, 8):
        np.testing.assert_array_equal(
            core.simulator.drive_state.friction, [pair if step > 5 else (0.8, 0.6)] * 4
        )
        core.step(np.zeros((4, 12, 1), np.float32))


def test_what_a_body_has_no_part_for_is_refused():
    push = EventTerm("push", "base_velocity", events.within(0.3), every=(1.0, 2.0))
    lacking = (
        {"events": (push,)},
        {"scene": replace(TASK.scene, rough=RoughGround())},
        {"sensor_noise": SensorNoise(joint_angle=0.1)},
    )
    for changes in lacking:
        with pytest.raises(ConfigError, match="only bodies with joint drives"):
            _core(replace(TASK, **changes))
    core = _core(replace(TASK, rewards=(RewardTerm("tilt", -1.0, tilted_base),)))
    with pytest.raises(ConfigError, match="only bodies with joint drives have"):
        core.step(_actions(core))


@pytest.mark.parametrize("target", ["base_mass", "position", "heading", "joint_angle"])
def test_what_only_resets_can_change_is_refused_during_an_episode(target):
    event = EventTerm("change", target, events.within(0.3), every=(1.0, 2.0))
    with pytest.raises(ConfigError, match=f"'{target}', which only resets can"):
        _core(replace(VELOCITY, events=(event,)), [GO1])


@pytest.mark.parametrize(
    "changes",
    [
        {"floor": '<geom type="box" size="9 9 1"/>'},
        {"assets": '<texture name="grass" type="2d" builtin="flat" width="8" height="8"/>'},
        {"spawn": (0.0, 0.0, 1.0)},
        {"start_offset": (5.0, 0.0, 0.0)},
        {"start_orientation": (0.0, 0.0, 0.0, 1.0)},
        {"terrain": OBSTACLES.scene.terrain, "floor": OBSTACLES.scene.floor},
    ],
)
def test_bodies_with_drives_stand_on_ground_of_their_own(changes):
    name = next(iter(changes))
    task = replace(VELOCITY, scene=replace(VELOCITY.scene, **changes))
    with pytest.raises(ConfigError, match=f"has '{name}', but bodies with joint drives stand on"):
        _core(task, [GO1])
    with pytest.raises(ConfigError, match=r"ground_height of 1.0, but bodies with joint drives"):
        _core(replace(VELOCITY, ground_height=1.0), [GO1])


def _of_wrong_shape(seen):
    return np.zeros((4, 1))


def _not_finite(transition):
    return np.log(np.minimum(transition.torso_after[:, 0], 0.0))


def _broken(seen):
    return {}["key"]


def _writes(seen):
    (seen.torso_after if hasattr(seen, "torso_after") else seen.torso_position)[:, 2] += 1.0
    return np.zeros(4)


NUMBERS = "must be finite and at most 1e\\+20 in size wherever a body can be$"
WRONG = [
    ("rewards", RewardTerm("odd", 1.0, _of_wrong_shape), r"\(4, 1\); it must be \(4,\)$"),
    ("rewards", RewardTerm("odd", 1.0, lambda t: 1.0), r"shape \(\); it must be \(4,\)$"),
    ("rewards", RewardTerm("odd", 1.0, lambda t: np.array(list("abcd"))), "must return numbers$"),
    ("rewards", RewardTerm("odd", 0.5, _not_finite), f"returned (nan|-inf); it {NUMBERS}"),
    (
        "rewards",
        RewardTerm("odd", 1.0, lambda t: np.full(4, 1e21)),
        f"returned 1e\\+21; it {NUMBERS}",
    ),
    (
        "rewards",
        RewardTerm("odd", 1.0, lambda t: np.full(4, -1e21)),
        f"returned -1e\\+21; it {NUMBERS}",
    ),
    (
        "metrics",
        MetricTerm("odd", "m", lambda t: np.full(4, np.nan)),
        f"returned nan; it {NUMBERS}",
    ),
    ("observations", ObservationTerm("odd", lambda m: np.full((4, 1, 1), np.nan)), NUMBERS),
    ("rewards", RewardTerm("odd", 1.0, _writes), r"is read-only \[test_terms.py:\d+\]$"),
    ("observations", ObservationTerm("odd", _writes), r"is read-only \[test_terms.py:\d+\]$"),
    ("rewards", RewardTerm("odd", 1.0, _broken), r"KeyError: 'key' \[test_terms.py:\d+\]$"),
    ("rewards", RewardTerm("odd", 1.0, lambda t: sys.exit(0)), r"SystemExit: 0 \[test_terms.py"),
    ("terminations", TerminationTerm("odd", lambda t: np.zeros(4)), "must return truth values"),
    ("terminations", TerminationTerm("odd", lambda t: np.zeros(4, bool).any()), r"it must be \(4,"),
    ("metrics", MetricTerm("odd", "m", _of_wrong_shape), r"it must be \(4,\)$"),
    ("observations", ObservationTerm("odd", place, width=3), r"\(4, 1, 3\) or \(4, 5, 3\)$"),
]


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value) encountered in log")
@pytest.mark.parametrize(("kind", "term", "message"), WRONG)
def test_terms_that_return_something_else_are_named(kind, term, message):
    task = replace(TASK, **{kind: (*getattr(TASK, kind), term)})
    expected = rf"^the {kind[:-1]} 'odd' of the task 'unimal-ft-v1' .*{message}"
    with pytest.raises(PluginError, match=expected):  # noqa: PT012 - observations fail at the reset
        core = _core(task)
        core.step(_actions(core))


def test_only_rows_that_were_simulated_and_did_not_break_are_asked_for_numbers():
    def place_or_nothing(moment):
        found = np.array(moment.torso_position[:, None, :1])
        found[2 if moment.action.any() else [], 0] = np.nan
        return found

    core = _core(replace(TASK, observations=(ObservationTerm("odd", place_or_nothing),)))
    core.step(_actions(core), rows=np.array([0, 1, 3]))
    with pytest.raises(PluginError, match=r"'odd' .* returned nan"):
        core.step(_actions(core))


def test_numbers_of_padding_are_no_bodys():
    def nothing_in_padding(moment):
        found = np.zeros((4, 5, 1))
        found[ROWS % 2 == 0, 3:] = np.nan  # of the chain of three limbs
        return found

    core = _core(replace(TASK, observations=(ObservationTerm("odd", nothing_in_padding),)))
    core.step(_actions(core))
    assert np.isfinite(core.dynamic).all()


class _Speed(VelocityCommand):
    """A command with mistakes in it."""

    def __init__(self, **mistakes):
        super().__init__()
        for name, function in mistakes.items():
            object.__setattr__(self, name, function)


@pytest.mark.parametrize(
    ("mistakes", "message"),
    [
        (
            {"draw": lambda uniform, heading: {}["key"]},
            r"draw, failed .* KeyError: 'key' \[test_te",
        ),
        ({"draw": lambda uniform, heading: sys.exit(0)}, "draw, failed with SystemExit: 0"),
        ({"draw": lambda uniform, heading: np.zeros((4, 3))}, "draw, failed with ValueError"),
        (
            {"draw": lambda uniform, heading: (np.zeros((4, 2)), heading)},
            r"draw, .* shape \(4, 2\); it must be \(4, 3\)$",
        ),
        (
            {"draw": lambda uniform, heading: (np.zeros((4, 3)), heading[:1])},
            r"draw, .* shape \(1,\); it must be \(4,\)$",
        ),
        (
            {"draw": lambda uniform, heading: (np.full((4, 3), np.nan), heading)},
            f"draw, returned nan; it {NUMBERS}",
        ),
        (
            {"steer": lambda command, kept, heading: command[:, :2]},
            r"steer, .* shape \(4, 2\); it must be \(4, 3\)$",
        ),
        ({"steer": _broken}, "steer, failed with TypeError"),
    ],
)
def test_commands_that_give_something_else_are_named(mistakes, message):
    task = replace(VELOCITY, command=_Speed(**mistakes))
    expected = rf"^the command of the task '{VELOCITY.id}', in {message}"
    with pytest.raises(PluginError, match=expected):
        _core(task, [GO1])


def test_a_command_may_draw_nothing():
    def draw(uniform, heading):
        assert uniform.shape == (len(heading), 0)
        return np.full((len(heading), 1), 0.5), np.full(len(heading), np.nan)

    steer = {"steer": lambda command, kept, heading: command}
    numbers = {"num_values": 1, "num_draws": 0, "resample_s": 1.0}
    constant = SimpleNamespace(draw=draw, **steer, **numbers)
    core = _core(replace(TASK, command=constant))
    assert core.command.tolist() == [[0.5]] * 4
    usual = _core(TASK)  # whose bodies start likewise: no number was taken from their streams
    assert np.array_equal(core.simulator.streams, usual.simulator.streams)


def test_a_heading_that_bodies_lack_cannot_be_held():
    """It would be zero for ever: the command would be one that never steers."""
    with pytest.raises(ConfigError, match=r"holds headings, which only bodies with joint drives"):
        _core(replace(TASK, command=VelocityCommand.fixed(0.5, held=True)))
    rarely = replace(VelocityCommand.fixed(0.5), straight=0.01)
    with pytest.raises(ConfigError, match=r"holds headings"):  # not only once one is drawn
        _core(replace(TASK, command=rarely))
    core = _core(replace(TASK, command=VelocityCommand.fixed(0.5, yaw=0.25)))
    assert core.command.tolist() == [[0.5, 0.0, 0.25]] * 4


def test_terms_of_integers_are_numbers_like_others():
    term = RewardTerm("odd", 2, lambda t: np.full(4, 200, np.uint8))
    core = _core(replace(TASK, rewards=(term,)))
    assert core.step(_actions(core)).reward.tolist() == [400.0] * 4


def test_terms_that_cancel_each_other_are_looked_at_alone():
    huge = [RewardTerm(f"odd{sign:+d}", sign, lambda t: np.full(4, 1e25)) for sign in (1, -1)]
    core = _core(replace(TASK, rewards=(*TASK.rewards, *huge)))
    with pytest.raises(PluginError, match=r"^the reward 'odd\+1' .* returned 1e\+25"):
        core.step(_actions(core))


def test_motion_cannot_be_written_to_either():
    def write(transition):
        transition.motion.joint_angle[:] = 0.0

    task = replace(VELOCITY, rewards=(RewardTerm("odd", 1.0, write),))
    core = _core(task, [GO1])
    with pytest.raises(PluginError, match="is read-only"):
        core.step(_actions(core))


@pytest.mark.parametrize(
    ("target", "value", "message"),
    [
        ("base_mass", lambda draw: np.full(draw.num_rows, -0.5), "drew -0.5 .* must be positive"),
        ("base_mass", lambda draw: np.zeros(draw.num_rows), "drew 0 .* must be positive"),
        ("strength", lambda draw: np.full(draw.num_rows, -0.5), "-0.5 .* must not be negative"),
        ("heading", lambda draw: np.full(draw.num_rows, np.nan), "must be finite"),
        ("friction", lambda draw: np.ones(draw.num_rows), r"it must be \(4, 2\)$"),
        ("base_velocity", lambda draw: np.ones((draw.num_rows, 7)), r"or \(4, 6\)$"),
    ],
)
def test_events_that_draw_something_else_are_named(target, value, message):
    task = replace(VELOCITY, events=(EventTerm("odd", target, value),))
    with pytest.raises(PluginError, match=f"^the event 'odd' of the task .*{message}"):
        _core(task, [GO1])


def test_motors_may_be_without_any_strength():
    limp = EventTerm("limp", "strength", lambda draw: np.zeros(draw.num_rows))
    core = _core(replace(VELOCITY, events=(limp,)), [GO1])
    assert not core.simulator.drive_state.strength.any()


def test_a_metric_is_that_of_the_end_and_not_of_the_next_start():
    """A function may return the simulator's own array, which a reset overwrites in place."""
    at_end = TerminationTerm("at_end", lambda t: np.array([False, False, True, True]))
    side = MetricTerm("side", "m", lambda t: t.torso_after[:, 1])
    core = _core(replace(TASK, terminations=(at_end,), metrics=(side,)))
    result = core.step(_actions(core))
    expected = core.simulator.torso_position[:, 1].copy()
    core.reset(ROWS[2:], ROWS[2:] % 2)
    np.testing.assert_array_equal(result.metrics["side"], expected)


def test_a_layout_with_observations_of_another_task_is_refused():
    """What no term fills would be zero without a word."""
    more = replace(TASK, observations=(ObservationTerm("place", place, width=2),))
    with pytest.raises(ConfigError, match=r"adds place, but the task 'unimal-ft-v1' adds nothing"):
        EnvironmentCore(TASK, BODIES, 1, token_spec=more.token_spec(5, 2), num_threads=1)
    wide = replace(TASK, observations=(ObservationTerm("place", place, width=3),))
    with pytest.raises(ConfigError, match=r"token_spec of the task"):
        EnvironmentCore(more, BODIES, 1, token_spec=wide.token_spec(5, 2), num_threads=1)


def test_an_observation_with_the_name_of_a_fixed_feature_is_refused():
    """It would be written over readings of the limbs."""
    task = replace(TASK, observations=(ObservationTerm("body_mass", place),))
    with pytest.raises(ConfigError, match=r"'body_mass', as a feature that is fixed by the body"):
        _core(task)


@pytest.mark.parametrize("clip", [None, 2.0])
def test_terms_see_the_actions_of_limbs_as_the_engine_clamps_them(clip):
    sent = ObservationTerm("sent", lambda moment: moment.action.max(axis=1)[:, None, None])
    task = replace(TASK, rewards=(RewardTerm("effort", -1.0, effort),), action_clip=clip)
    core, other = (_core(replace(task, observations=(sent,))) for _ in range(2))
    actions = 4.0 * _actions(core)
    assert np.abs(actions).max() > 2.0
    clamped = np.clip(actions, -1.0, 1.0)
    results = [core.step(actions), other.step(clamped)]
    np.testing.assert_array_equal(results[0].reward, results[1].reward)
    np.testing.assert_array_equal(core.dynamic, other.dynamic)
    assert core.dynamic[..., -1].max() == 1.0


def test_actions_of_limbs_are_cut_off_where_the_task_says_so():
    term = RewardTerm("effort", -1.0, effort)
    core, gentle = (
        _core(replace(TASK, rewards=(term,), action_clip=clip)) for clip in (None, 0.25)
    )
    actions = _actions(core)
    assert np.abs(actions).max() > 0.25
    clipped = np.clip(actions, -0.25, 0.25)
    np.testing.assert_array_equal(gentle.step(actions).reward, core.step(clipped).reward)
    np.testing.assert_array_equal(gentle.dynamic, core.dynamic)
