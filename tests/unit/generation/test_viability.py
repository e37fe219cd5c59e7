import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Actuator, Geom, Joint, Limb, Morphology
from gmc_bench.generation import viability
from gmc_bench.generation.viability import NUM_GAITS, Viability, _distance, _gaits, assess_viability


def _body(height: float, gear: float = 150.0) -> Morphology:
    """A torso with one hinged limb that points forwards."""
    hinge = Joint(
        name="limby/0",
        axis=(0.0, 1.0, 0.0),
        position=(-0.05, 0.0, 0.0),
        range=(-0.5, 0.5),
        slot=1,
    )
    limb = Limb(
        name="limb/0",
        parent=0,
        position=(0.1, 0.0, 0.0),
        geom=Geom(kind="capsule", radius=0.05, end=(0.25, 0.0, 0.0)),
        joints=(hinge,),
    )
    torso = Limb(
        name="torso/0", parent=-1, position=(0.0, 0.0, height), geom=Geom(kind="sphere", radius=0.1)
    )
    actuators = (Actuator(joint="limby/0", gear=gear),)
    return Morphology(name="b", limbs=(torso, limb), actuators=actuators)


def test_a_body_that_lies_on_its_torso_cannot_fall():
    # Standing height 0.1 m, so the limit of 0.05 m is inside the torso's radius of 0.1 m.
    found = assess_viability(_body(height=0.3), np.random.default_rng(0))
    assert found.surviving_share == 1.0
    assert found.best_distance > 0.0


def test_a_body_dropped_from_above_its_reach_falls():
    # Standing height 1.8 m; it comes to rest near 0.1 m, below the limit of 0.9 m.
    found = assess_viability(_body(height=2.0), np.random.default_rng(0))
    assert found == Viability(best_distance=0.0, surviving_share=0.0)
    assert not found.passed


def test_a_diverging_simulation_counts_as_a_fall(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the engine's solver writes a log file here
    found = assess_viability(_body(height=0.3, gear=1e12), np.random.default_rng(0))
    assert found.surviving_share == 0.0


def test_a_gait_that_the_engine_warns_of_has_no_distance():
    """Also where the state stays finite: the engine sets a control to zero that is no number."""
    floor = '<geom type="plane" size="0 0 1"/>'
    model = mujoco.MjModel.from_xml_string(emit_mjcf(_body(0.3), floor=floor))
    data = mujoco.MjData(model)
    controls = np.zeros((5, 1))
    assert math.isfinite(_distance(model, data, controls, fall_height=0.0))
    controls[2] = np.nan
    assert math.isnan(_distance(model, data, controls, fall_height=0.0))
    assert np.isfinite(data.qpos).all()


@pytest.mark.parametrize("turned", [False, True])
def test_the_distance_is_the_one_along_x(turned):
    """Of a ball that flies on at the speed that it starts with, mostly along x or along y."""
    text = (
        '<mujoco><option timestep="0.005" gravity="0 0 0"/><worldbody><body pos="0 0 0.1">'
        '<freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    reset = mujoco.mj_resetData

    def push(model, data):
        reset(model, data)
        data.qvel[:3] = (0.5, -1.0, 0.0) if turned else (-1.0, 0.5, 0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mujoco, "mj_resetData", push)
        found = _distance(model, data, np.zeros((50, 0)), fall_height=0.0)
    assert found == pytest.approx(0.5 if turned else -1.0, abs=1e-9)  # in one second


def test_a_body_that_falls_at_once_is_given_up_and_others_are_not(monkeypatch):
    """The first three gaits fall, and then every second one."""
    tried = []

    def distance(model, data, gait, fall_height):
        tried.append(gait)
        return math.nan if len(tried) <= 3 or len(tried) % 2 else 0.25

    monkeypatch.setattr(viability, "_distance", distance)
    given_up = assess_viability(_body(0.3), np.random.default_rng(0), patience=3)
    assert (given_up, len(tried)) == (Viability(0.0, 0.0), 3)
    tried.clear()
    found = assess_viability(_body(0.3), np.random.default_rng(0), patience=4)
    assert (found, len(tried)) == (Viability(0.25, 23 / NUM_GAITS), NUM_GAITS)


def test_equal_generators_give_equal_results(monkeypatch):
    monkeypatch.setattr(viability, "NUM_GAITS", 6)
    results = [assess_viability(_body(0.3), np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_gate_needs_distance_and_survival():
    good = Viability(best_distance=0.5, surviving_share=0.1)
    assert good.passed
    assert not replace(good, best_distance=0.49).passed
    assert not replace(good, surviving_share=0.09).passed


def test_gaits_are_sinusoids_of_one_frequency():
    controls = _gaits(3, np.random.default_rng(0))
    assert controls.shape == (48, 200, 3)  # of four seconds
    assert np.abs(controls).max() <= 1.0
    assert np.abs(controls).max(axis=1).min() == pytest.approx(0.3, abs=0.02)
    # Samples of one sinusoid obey x[t-1] + x[t+1] = 2 cos(w dt) x[t], with one w for all motors.
    left = controls[:, :-2] + controls[:, 2:]
    factors = (left * controls[:, 1:-1]).sum(axis=1) / (controls[:, 1:-1] ** 2).sum(axis=1)
    np.testing.assert_allclose(left, factors[:, None] * controls[:, 1:-1], atol=1e-9)
    np.testing.assert_allclose(factors, np.broadcast_to(factors[:, :1], factors.shape))
    # Every motor has an amplitude and a phase of its own.
    cosine, turn = controls[:, 0], np.arccos(factors / 2)
    sine = (controls[:, 1] - cosine * np.cos(turn)) / np.sin(turn)
    amplitude = np.hypot(sine, cosine)
    for own in (amplitude, np.arctan2(cosine, sine)):
        assert (np.abs(np.diff(own)) > 0.01).mean() > 0.9
    assert 0.3 <= amplitude.min() < 0.32
    assert 0.98 < amplitude.max() <= 1.0
    frequencies = np.arccos(factors / 2) / (2 * np.pi * 0.02)
    expected = 0.5 + 2.5 * np.random.default_rng(0).random(48)
    np.testing.assert_allclose(frequencies[:, 0], expected, rtol=1e-6)
