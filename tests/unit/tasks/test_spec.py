import math
import pickle
from dataclasses import MISSING, fields, replace
from functools import partial

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.sim.model import RoughGround, Scene
from gmc_bench.tasks import unimal_exploration, unimal_ft, unimal_incline, unimal_obstacles
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.events import within
from gmc_bench.tasks.metrics import position_x
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.observations import joint_offset
from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import (
    EventTerm,
    MetricTerm,
    ObservationTerm,
    RewardTerm,
    Slope,
    Task,
    TerminationTerm,
    VisitGrid,
    is_speed,
    speed,
)


def test_a_slope_is_looked_up_in_cells_of_a_tenth_of_a_metre_in_whole_millimetres():
    slope = Slope(rise=0.5, half_length=10.0, half_width=2.0)
    places = np.array([[0.0, 0.0], [0.16, 1.0], [-0.01, -1.0], [9.99, 0.0]])
    found = slope.height(np.c_[places, np.zeros(4)], 1.0)
    np.testing.assert_allclose(found, [1.0, 1.05, 0.95, 5.95], atol=1e-12)
    third = Slope(rise=1 / 3, half_length=10.0, half_width=2.0)
    assert third.height(np.array([[0.15, 0.0, 0.0]]), 1.0).tolist() == [1.033]


def test_beyond_a_slope_there_is_nothing():
    slope = Slope(rise=0.5, half_length=10.0, half_width=2.0)
    places = np.array([[10.0, 0.0, 0.0], [-10.01, 0.0, 0.0], [0.0, 2.0, 0.0], [math.nan, 0.0, 0.0]])
    assert slope.height(places, 1.0).tolist() == [-10.0] * 4


def test_only_random_terrain_has_a_height_map():
    tasks = (unimal_ft, unimal_incline, unimal_exploration, unimal_obstacles)
    assert [module.TASK.num_heights for module in tasks] == [0, 0, 0, 1410]


def test_what_the_environment_reports_itself_is_no_name_for_a_term():
    never = TerminationTerm("time_limit", lambda transition: transition.torso_after[:, 0] > 1e9)
    reward = RewardTerm("failure", 1.0, forward_velocity)
    for changes in (
        {"terminations": (never,)},
        {"terminations": (replace(never, name="diverged"),)},
        {"rewards": (reward,), "failure_cost": 1.0},
        {"rewards": (replace(reward, name="cut_off"),), "only_positive": True},
    ):
        with pytest.raises(ConfigError, match="which the environment reports itself"):
            replace(unimal_ft.TASK, **changes)
    assert replace(unimal_ft.TASK, rewards=(reward,)).reward_weights == {"failure": 1.0}


def test_a_return_is_a_distance_where_a_speed_is_all_that_is_rewarded():
    task = unimal_ft.TASK  # control steps of 0.02 s
    assert task.metres_per_return == pytest.approx(0.02)
    assert unimal_incline.TASK.metres_per_return == pytest.approx(0.02)
    heavier = RewardTerm("fast", 4.0, forward_velocity)
    slower = replace(task.scene, num_substeps=8)
    assert replace(task, rewards=(heavier,)).metres_per_return == pytest.approx(0.005)
    assert replace(task, scene=slower).metres_per_return == pytest.approx(0.04)
    assert unimal_exploration.TASK.metres_per_return is None  # cells are no speed
    for changes in (
        {"rewards": ()},
        {"rewards": (*task.rewards, heavier)},
        {"rewards": (replace(heavier, weight=-1.0),)},
        {"rewards": (RewardTerm("fast", 1.0, partial(forward_velocity)),)},  # not marked
        {"only_positive": True},
        {"reward_rates": True},
        {"failure_cost": 1.0},
    ):
        assert replace(task, **changes).metres_per_return is None


def test_a_speed_is_a_function_and_not_all_of_its_name():
    def half(transition):
        return 0.5 * forward_velocity(transition)

    def made():
        return lambda transition: half(transition)

    fast, slow = speed(made()), made()
    assert fast.__qualname__ == slow.__qualname__
    assert [is_speed(term) for term in (fast, slow, half)] == [True, False, False]
    assert is_speed(pickle.loads(pickle.dumps(forward_velocity)))
    with pytest.raises(ConfigError, match=r"only functions .* got functools.partial\(.* calls it"):
        speed(partial(half))
    assert not is_speed(partial(forward_velocity))


def test_shares_of_commands_may_add_up_to_one():
    shares = {"straight": 0.2, "backward": 0.4, "sideways": 0.3, "turning": 0.1}
    assert sum(shares.values()) > 1.0  # by rounding
    assert VelocityCommand(**shares).straight == 0.2


DEFAULTS = {
    Task: {
        "horizon": 1000, "source": "", "metrics": (), "floor_clearance": 0.2, "reset_noise": 0.005,
        "slope": None, "grid": None, "parts": "limbs", "observations": (),
        "sensor_noise": SensorNoise(), "command": None, "events": (), "reward_rates": False,
        "only_positive": False, "failure_cost": 0.0, "action_clip": None,
    },
    Scene: {
        "spawn": (0.0, 0.0, 0.0), "num_substeps": 4, "assets": "", "start_offset": (0.0, 0.0, 0.0),
        "start_orientation": (1.0, 0.0, 0.0, 0.0), "terrain": None, "friction_rule": "two-state",
        "rough": None,
    },
    RoughGround: {"share": 0.25, "height": 0.035},
    VelocityCommand: {
        "forward": (-0.8, 1.0), "lateral": (-0.4, 0.4), "yaw": (-0.8, 0.8), "standing": 0.05,
        "straight": 0.25, "straight_forward": (0.4, 1.0), "backward": 0.1,
        "straight_backward": (-0.8, -0.4), "sideways": 0.15, "turning": 0.15, "held": 0.5,
        "heading_gain": 0.5, "heading_limit": 0.8, "resample_s": 10.0,
    },
    SensorNoise: {
        "base_linear_velocity": 0.0, "base_angular_velocity": 0.0, "gravity": 0.0,
        "joint_angle": 0.0, "joint_velocity": 0.0,
    },
    ObservationTerm: {"scale": 1.0, "width": 1, "unit": "1", "frame": "-"},
    EventTerm: {"every": None},
}  # fmt: skip


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_what_tasks_leave_out_is_what_it_was_when_they_were_released(kind):
    """Their digests leave it out, too: runs before and after a change would share a table."""
    found = {item.name: item.default for item in fields(kind) if item.default is not MISSING}
    assert found == DEFAULTS[kind]


def test_names_are_unique_among_terms_of_a_kind():
    task = unimal_ft.TASK
    push = EventTerm("push", "base_velocity", within(0.3), every=(1.0, 2.0))
    metric, seen = MetricTerm("x", "m", position_x), ObservationTerm("place", joint_offset)
    for changes in (
        {"terminations": 2 * task.terminations},
        {"metrics": (metric, replace(metric, unit="cm"))},
        {"observations": (seen, replace(seen, scale=2.0))},
        {"events": (push, push)},
    ):
        with pytest.raises(ConfigError, match="names must be unique"):
            replace(task, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "the horizon of the task 'unimal-ft-v1' must be .* at least 1, got 0"),
        ({"horizon": 2.5}, "got 2.5"),
        ({"action_clip": -1.0}, "action_clip .* above 0, got -1.0"),
        ({"action_clip": 0.0}, "action_clip .* above 0, got 0.0"),
        ({"reset_noise": math.nan}, "reset_noise .* at least 0, got nan"),
        ({"failure_cost": -1.0}, "failure_cost .* at least 0"),
        ({"ground_height": math.inf}, "ground_height .* must be a finite number, got inf"),
        ({"floor_clearance": "0.2"}, "floor_clearance .* got '0.2'"),
        ({"rewards": (RewardTerm("x", math.nan, forward_velocity),)}, "weight of the reward 'x'"),
        ({"observations": (ObservationTerm("x", joint_offset, width=0),)}, "width of .* 'x'"),
        (
            {"observations": (ObservationTerm("x", joint_offset, scale=math.inf),)},
            "scale of .* 'x'",
        ),
        ({"command": replace(VelocityCommand(), resample_s=0.0)}, "resample_s .* above 0"),
        (
            {"title": 3},
            "'title' of the task 'unimal-ft-v1' must be text, got 3; write it in quotes",
        ),
        ({"description": ("Run.",)}, r"'description' of the task .* must be text, got \('Run"),
        ({"source": None}, "'source' of the task .* must be text, got None"),
        ({"parts": "legs"}, "parts of the task .* must be limbs or actuators, got 'legs'"),
        ({"scene": "<geom/>"}, r"'scene' .* needs a Scene, got '<geom/>'; write scene=Scene\("),
        ({"slope": 0.1}, "'slope' of the task .* needs a Slope, got 0.1"),
        ({"grid": (10, 10)}, r"'grid' of the task .* needs a VisitGrid, got \(10, 10\)"),
        ({"sensor_noise": None}, "'sensor_noise' of the task .* needs a SensorNoise, got None"),
        ({"reward_rates": "no"}, "'reward_rates' of the task .* True or False, got 'no'"),
        ({"only_positive": 1}, "'only_positive' of the task .* True or False, got 1"),
        ({"command": "run"}, "command of the task .* needs 'num_values', which 'run' lacks"),
        (
            {"rewards": (RewardTerm("x", 1.0, None),)},
            "the term 'x' in 'rewards' of the task .* needs a function, got None",
        ),
        *(
            ({"rewards": (RewardTerm(name, 1.0, forward_velocity),)}, f"a term named {shown}; a")
            for name, shown in (("", "''"), (3, "3"), ("a\nb", r"'a\\nb'"))
        ),
    ],
)
def test_a_task_of_other_numbers_or_types_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(unimal_ft.TASK, **changes)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: VisitGrid(low=(0, 0), shape=(3, 3), cell_size=0.0), "cell_size .* above 0"),
        (lambda: VisitGrid(low=(0, 0), shape=(3, 0), cell_size=1.0), "shape of a grid .* got 0"),
        (lambda: EventTerm("x", "base_mas", within(0.3)), "'base_mas', .* mean 'base_mass'"),
        (lambda: EventTerm("x", "friction", within(0.3), every=(2.0, 1.0)), "at least 2, got 1"),
        (lambda: EventTerm("x", "friction", within(0.3), every=(-1.0, 1.0)), "at least 0, got -1"),
        (lambda: VisitGrid(low=(0, 0), shape=(3,), cell_size=1.0), "shape .* tuple of 2 numbers"),
        (lambda: VisitGrid(low=(0, math.nan), shape=(3, 3), cell_size=1.0), "low end .* got nan"),
        (lambda: EventTerm("x", "friction", within(0.3), every=5.0), "'every' .* tuple of 2"),
        (lambda: Slope(rise=math.nan, half_length=1.0, half_width=1.0), "rise of a slope .* nan"),
        (lambda: Slope(rise=0.1, half_length=0.0, half_width=1.0), "half_length .* above 0"),
        (lambda: VelocityCommand(forward=(1.0,)), "'forward' of a command must be a tuple of 2"),
        (lambda: VelocityCommand(heading_limit=-0.8), "'heading_limit' .* at least 0"),
        (lambda: VelocityCommand(heading_gain=-0.5), "'heading_gain' .* at least 0"),
        (lambda: VelocityCommand(standing=1.5), "at most 1"),
        (lambda: VelocityCommand(held=1.5), "at most 1"),
        *(
            (lambda name=name: VelocityCommand(**{name: -0.1}), f"'{name}' .* at least 0")
            for name in ("standing", "straight", "backward", "sideways", "turning", "held")
        ),
        (lambda: SensorNoise(joint_angle="a"), "noise 'joint_angle' must .* at least 0, got 'a'"),
        (lambda: SensorNoise(gravity=math.nan), "noise 'gravity' .* got nan"),
        (lambda: SensorNoise(joint_velocity=-0.1), "noise 'joint_velocity' .* got -0.1"),
        (lambda: VelocityCommand(straight=0.8, sideways=0.3), "got 1.35 of these"),
    ],
)
def test_parts_of_a_task_of_other_numbers_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize("wrong", ["mine", "Mine-v1", "mine-v0", "mine-velocity", "a/b-v1", 3])
def test_an_id_that_records_cannot_hold_is_refused(wrong):
    with pytest.raises(ConfigError, match="the id of a task must be lower-case letters"):
        replace(unimal_ft.TASK, id=wrong)


@pytest.mark.parametrize("wrong", ["off-track", "off track", "Fell", "2far", "", 3])
def test_a_termination_whose_name_records_cannot_hold_is_refused(wrong):
    (fell,) = unimal_ft.TASK.terminations
    with pytest.raises(ConfigError, match="termination of the task 'unimal-ft-v1' must be lower"):
        replace(unimal_ft.TASK, terminations=(replace(fell, name=wrong),))


@pytest.mark.parametrize("kind", ["rewards", "terminations", "metrics", "observations", "events"])
@pytest.mark.parametrize("wrong", [RewardTerm("speed", 1.0, forward_velocity), (forward_velocity,)])
def test_terms_that_are_no_tuple_of_terms_are_refused(kind, wrong):
    with pytest.raises(ConfigError, match=rf"'{kind}' of the task .* with a comma$"):
        replace(unimal_ft.TASK, **{kind: wrong})


def test_a_task_whose_terms_capture_what_has_no_hash_is_refused_before_it_is_run():
    target = np.zeros(2)

    def near(transition):
        return -np.abs(transition.torso_after[:, :2] - target).sum(axis=1)

    task = replace(unimal_ft.TASK, rewards=(RewardTerm("near", 1.0, near),))
    with pytest.raises(ConfigError, match="'unimal-ft-v1' cannot be told from a changed one"):
        assert task.digest
