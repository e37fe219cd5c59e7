"""What is recorded is what was scored, and its numbers are those worked out by hand."""

from dataclasses import dataclass, replace

import mujoco
import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation.evaluate import Scoring
from gmc_bench.evaluation.one_episode import WantedEpisode
from gmc_bench.methods import MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.sim.model import compile_model
from gmc_bench.studies.gait import (
    BrokenEpisodeError,
    Gait,
    _touching,
    gait_metrics,
    record_gait,
)
from gmc_bench.studies.measurements import _numbers
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec

BODIES = (chain(3), star(4), biped())


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    scale: float = 1.0
    """Of the weights."""


class ToyNetwork(nn.Module):
    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.layer = nn.Linear(spec.num_features, num_outputs)
        for parameter in self.layer.parameters():
            parameter.data *= config.scale

    def forward(self, tokens):
        return self.layer(tokens.features)


class Subject:
    """A policy with random weights, or one that does nothing."""

    def __init__(self, task="unimal-ft-v1", scale=1.0, horizon=60, falls=True):
        torch.manual_seed(3)
        self.task = replace(TASKS.get(task), horizon=horizon)
        if not falls:
            self.task = replace(self.task, terminations=())
        spec = TokenSpec(max_limbs=6, joints_per_limb=2, num_heights=self.task.num_heights)
        method = MethodSpec(id="toy", config=ToyConfig, builder=ToyNetwork)
        core = EnvironmentCore(self.task, BODIES, 1, token_spec=spec, num_threads=1)
        model = ActorCritic(method, ToyConfig(scale=scale), spec)
        self.policy = Policy(model, TokenNormalizer(core.table))

    def scoring(self, mode):
        return Scoring(task=self.task, bodies=BODIES, episodes=2, mode=mode, seed=5, num_threads=1)

    def record(self, body, episode=0, mode="deterministic", seconds=None, on_step=None):
        wanted = WantedEpisode(
            scoring=self.scoring(mode), body=body, episode=episode, seconds=seconds
        )
        return record_gait(self.policy, wanted, on_step)


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
@pytest.mark.parametrize("task", ["unimal-ft-v1", "unimal-incline-v1"])
def test_the_recorded_episode_is_the_scored_one(task, mode):
    subject = Subject(task)
    results = subject.scoring(mode).run(subject.policy)
    for body, episode in ((0, 1), (2, 0)):
        gait, scored = subject.record(body, episode, mode), results[body][episode]
        found = gait.episode_return, gait.length, gait.ended
        assert found == (scored.episode_return, scored.length, scored.ended)
        assert gait.body == BODIES[body].name


def test_a_body_at_rest_is_carried_by_the_limbs_that_touch_the_ground():
    gait = Subject(scale=0.0, horizon=200, falls=False).record(1)
    weight = 9.81 * float(
        compile_model(star(4), TASKS.get("unimal-ft-v1").scene).model.body_mass.sum()
    )
    late = gait.part(2.0)
    assert late.length == 100
    np.testing.assert_allclose(late.force.sum(axis=1).mean(), weight, rtol=0.05)
    assert (gait.force[~gait.contact] == 0.0).all()
    assert not gait.contact[0].any()  # it starts in the air
    assert late.contact.any(axis=1).all()
    assert gait.limbs[0] == "torso/0"


def test_a_limb_that_lies_on_both_ends_is_carried_by_both():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 .1'><freejoint/>"
        "<geom type='capsule' size='.1 .2' euler='0 90 0' mass='2'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=500)
    contact, force = _touching(model, data, 1)
    assert (data.ncon, contact.tolist()) == (2, [True])
    assert force[0] == pytest.approx(2.0 * 9.81, rel=1e-3)


def test_contacts_are_where_the_ground_is(monkeypatch):
    subject = Subject(horizon=40)
    seen = []
    step = EnvironmentCore.step

    def watched(core, *args):
        result = step(core, *args)
        model, data = core.simulator.model(0), core.simulator.data(0)
        # Positions of the last engine step: those of the geoms, which nothing updates afterwards.
        half = np.where(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE, model.geom_size[:, 1], 0)
        low = data.geom_xpos[:, 2] - half * np.abs(data.geom_xmat[:, 8]) - model.geom_size[:, 0]
        seen.append((low < 1.0)[model.geom_bodyid > 0])
        return result

    monkeypatch.setattr(EnvironmentCore, "step", watched)
    gait = subject.record(1, 1)  # the one episode that is simulated
    np.testing.assert_array_equal(gait.contact, np.stack(seen))
    assert 0 < gait.contact.sum() < gait.contact.size


def test_angles_and_speed_are_those_of_the_joints_and_the_torso(monkeypatch):
    angles, speeds = [], []
    step = EnvironmentCore.step

    def watched(core, *args):
        result = step(core, *args)
        data = core.simulator.data(0)
        angles.append({name: data.joint(name).qpos[0] for name in names})
        speeds.append(data.qvel[0])  # of the torso, along x
        return result

    names = [joint.name for limb in star(4).limbs for joint in limb.joints]
    monkeypatch.setattr(EnvironmentCore, "step", watched)
    gait = Subject(falls=False).record(1)
    assert sorted(gait.joints) == sorted(names)
    assert gait.phases.shape == gait.angles.shape
    np.testing.assert_array_equal(
        gait.angles, [[found[name] for name in gait.joints] for found in angles]
    )
    np.testing.assert_array_equal(gait.speed, speeds)
    assert gait.episode_return == pytest.approx(gait.speed.sum(), abs=2.5)  # the reward is it


def test_an_episode_can_be_left_early():
    subject, steps = Subject(), []
    gait = subject.record(0, seconds=0.2, on_step=lambda: steps.append(1))
    assert (gait.length, gait.ended, len(steps)) == (10, None, 10)
    np.testing.assert_array_equal(gait.angles, subject.record(0).angles[:10])


@pytest.mark.parametrize("broken", [1, 4])
def test_the_step_in_which_a_simulation_breaks_is_not_recorded(monkeypatch, broken):
    step = EnvironmentCore.step

    def breaking(core, *args):
        result = step(core, *args)
        if core.episode_length[0] == broken:
            core.simulator.data(0).qpos[:] = np.nan
            result.diverged[:] = result.truncated[:] = True
            result.events["diverged"][:] = True
        return result

    monkeypatch.setattr(EnvironmentCore, "step", breaking)
    subject = Subject(falls=False)
    if broken == 1:
        with pytest.raises(BrokenEpisodeError, match="'star-4' broke in the first step"):
            subject.record(1)
        return
    gait = subject.record(1)
    assert (gait.length, gait.ended) == (broken - 1, "diverged")
    assert np.isfinite(gait.angles).all()


def walk(angles, contact=None):
    """Return a gait with given angles."""
    length, joints = angles.shape
    contact = np.zeros((length, 3), np.bool_) if contact is None else contact
    return Gait(
        body="made", limbs=("torso/0", "limb/1", "limb/2"),
        joints=tuple(f"limbx/{joint}" for joint in range(joints)), contact=contact,
        force=100.0 * contact, angles=angles, speed=np.full(length, 1.5), episode_return=0.0,
        ended="time_limit", control_dt=0.02,
    )  # fmt: skip


def test_numbers_of_a_regular_trot():
    time = (np.arange(550) + 1) * 0.02
    swing = 0.4 * np.cos(2 * np.pi * 2.0 * time)
    angles = np.column_stack([swing, -swing, 0.5 * np.roll(swing, 5), 0 * time])
    contact = np.column_stack([0 * time, swing < 0.2, swing < 0.0]).astype(np.bool_)
    found = gait_metrics(walk(angles, contact))
    assert found.feet == (1, 2)
    np.testing.assert_allclose(found.duty_factors, [0.0, 2 / 3, 0.5], atol=0.03)
    assert found.stride_frequency == pytest.approx(2.0, rel=0.005)
    assert found.regularity > 0.99
    assert found.mean_speed == 1.5
    assert found.mean_phase_coherence > 0.99
    moving, still = found.phase_coherence[:3, :3], found.phase_coherence[3]
    np.testing.assert_allclose(np.diag(moving), 1.0)
    np.testing.assert_allclose(moving, moving.T)
    assert np.isnan(still).all()


def test_numbers_of_joints_that_follow_nothing():
    rng = np.random.default_rng(0)
    found = gait_metrics(walk(rng.normal(0.0, 0.3, (1000, 4))))
    assert found.regularity < 0.2
    assert found.mean_phase_coherence < 0.2
    assert found.feet == ()
    # Two joints in step at different speeds drift apart.
    time = np.arange(1000) * 0.02
    angles = np.column_stack([np.sin(2 * np.pi * time), np.sin(2 * np.pi * 1.3 * time)])
    assert gait_metrics(walk(angles)).mean_phase_coherence < 0.1


@pytest.mark.parametrize(("period", "frequency"), [(1.9, 1 / 1.9), (2.1, np.nan)])
def test_a_stride_takes_two_seconds_at_most(period, frequency):
    time = np.arange(550) * 0.02
    found = gait_metrics(walk(np.cos(2 * np.pi * time / period)[:, None]))
    assert found.stride_frequency == pytest.approx(frequency, rel=0.01, nan_ok=True)


def test_the_start_is_left_out():
    time = (np.arange(300) + 1) * 0.02
    contact = np.column_stack([time <= 1.0, time > 1.0, time > 3.5]).astype(np.bool_)
    found = gait_metrics(walk(np.zeros((300, 1)), contact))
    assert found.feet == (1, 2)
    np.testing.assert_allclose(found.duty_factors, [0.0, 1.0, 0.5])
    assert np.isnan(found.stride_frequency)
    assert np.isnan(found.regularity)
    assert np.isnan(found.mean_phase_coherence)
    with pytest.raises(ConfigError, match="'made' has 40 steps, of which none is left"):
        gait_metrics(walk(np.zeros((40, 1))))


def test_a_row_of_the_table_has_the_mean_duty_factor_of_the_feet():
    time = (np.arange(150) + 1) * 0.02
    contact = np.column_stack([0 * time, time > 2.0, time > 2.5]).astype(np.bool_)
    found = _numbers(walk(np.zeros((150, 1)), contact))
    assert found["duty_factor"] == pytest.approx((0.5 + 0.25) / 2)
    assert (found["speed"], found["stride_frequency"]) == (1.5, None)
    fallen = _numbers(walk(np.zeros((40, 1))))
    assert fallen == {**dict.fromkeys(found), "episode_return": 0.0}


def test_the_numbers_of_a_gait_are_those_of_their_names():
    rng = np.random.default_rng(0)
    time = (np.arange(550) + 1) * 0.02
    swing = 0.4 * np.cos(2 * np.pi * 1.7 * time)
    angles = np.column_stack([swing, rng.normal(0.0, 0.3, 550), rng.normal(0.0, 0.2, 550)])
    contact = np.column_stack([0 * time, swing < 0.2, swing < 0.3]).astype(np.bool_)
    gait = replace(walk(angles, contact), episode_return=7.0)
    metrics = gait_metrics(gait)
    expected = {
        "episode_return": 7.0,
        "speed": metrics.mean_speed,
        "stride_frequency": metrics.stride_frequency,
        "regularity": metrics.regularity,
        "duty_factor": metrics.duty_factors[1:].mean(),
        "phase_coherence": metrics.mean_phase_coherence,
    }
    assert len(set(np.round(list(expected.values()), 2))) == len(expected)
    assert _numbers(gait) == pytest.approx(expected)


def test_a_part_is_cut_by_time():
    gait = walk(np.arange(10.0)[:, None])
    assert gait.part(0.04, 0.1).angles[:, 0].tolist() == [2.0, 3.0, 4.0]
    assert gait.part(0.0).length == 10
