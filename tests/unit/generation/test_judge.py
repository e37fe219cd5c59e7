from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Actuator, Inertia, Loop
from gmc_bench.generation import judge as judge_module
from gmc_bench.generation import viability
from gmc_bench.generation.bodies import grow_clear_body
from gmc_bench.generation.judge import Verdict, judge, simulate_randomly
from gmc_bench.generation.released import build_released
from gmc_bench.generation.viability import Viability

FLOOR = '<geom type="plane" size="0 0 1"/>'


@pytest.fixture(scope="module")
def body():
    return min(build_released("gmc-unimal-mini-v1").split("train"), key=lambda b: b.num_limbs)


@pytest.fixture(scope="module")
def looped():
    return grow_clear_body(np.random.default_rng(0), 7, "b", loops=1)


@pytest.fixture
def viable(monkeypatch):
    """Let every body pass the search over gaits, which is tested elsewhere."""
    monkeypatch.setattr(judge_module, "assess_viability", lambda *_: Viability(1.0, 0.5))


def _model(body):
    return mujoco.MjModel.from_xml_string(emit_mjcf(body, floor=FLOOR))


def test_a_sound_body_passes(body, viable):
    verdict = judge(body, (1, 2))
    assert (verdict.fault, verdict.best_distance, verdict.surviving_share) == ("", 1.0, 0.5)
    assert verdict.high_residual == 0.0


def test_equal_seeds_give_equal_verdicts(body, monkeypatch):
    monkeypatch.setattr(viability, "NUM_GAITS", 6)
    assert judge(body, (1, 2)) == judge(body, (1, 2))


def test_a_body_that_cannot_move_is_turned_down(body, monkeypatch):
    drawn = []

    def assess(body, rng, patience):
        drawn.append(rng.random())
        assert patience == 12
        return Viability(0.12344, 0.98766)

    monkeypatch.setattr(judge_module, "assess_viability", assess)
    for seed in ((1, 2), (1, 2), (1, 3), (2, 2)):
        found = judge(body, seed)
        assert found == Verdict(fault="viability", best_distance=0.1234, surviving_share=0.9877)
    assert len(set(drawn)) == len(drawn) - 1  # gaits follow from the seed
    assert drawn[0] == np.random.default_rng([1, 2, 1]).random()


def test_a_body_of_lead_or_feathers_is_turned_down(body):
    for density in (1.0, 30_000.0):
        limbs = tuple(
            replace(limb, geom=replace(limb.geom, density=density)) for limb in body.limbs
        )
        assert judge(replace(body, limbs=limbs), (1, 2)).fault == "mass"


@pytest.mark.parametrize(
    ("mass", "fault"), [(0.99, "mass"), (1.01, ""), (299.0, ""), (301.0, "mass")]
)
def test_a_body_whose_mass_alone_is_odd_is_turned_down(body, monkeypatch, mass, fault):
    monkeypatch.setattr(judge_module, "simulate_randomly", lambda *_: np.zeros((1, 0)))
    moved = Inertia(mass=mass / body.num_limbs, centre=(0.0, 0.0, 0.0), moments=(0.01, 0.01, 0.01))
    limbs = tuple(replace(limb, inertia=moved) for limb in body.limbs)
    assert judge(replace(body, limbs=limbs), (1, 2), gaits=False).fault == fault


@pytest.mark.parametrize("limb", [0, 1])
@pytest.mark.parametrize(
    ("moment", "fault"), [(0.9e-4, "mass"), (1.1e-4, ""), (19.9, ""), (20.1, "mass")]
)
def test_a_body_with_a_limb_of_odd_inertia_is_turned_down(body, monkeypatch, limb, moment, fault):
    """Every limb counts, also where the mass of the whole body is right."""
    monkeypatch.setattr(judge_module, "simulate_randomly", lambda *_: np.zeros((1, 0)))
    odd = Inertia(mass=1.0, centre=(0.0, 0.0, 0.0), moments=(moment, moment, moment))
    limbs = list(body.limbs)
    limbs[limb] = replace(limbs[limb], inertia=odd)
    found = replace(body, limbs=tuple(limbs))
    assert 1.0 < _model(found).body_mass.sum() < 300.0
    assert judge(found, (1, 2), gaits=False).fault == fault


def test_a_body_that_diverges_is_turned_down(body, viable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    actuators = tuple(Actuator(joint=a.joint, gear=1e9) for a in body.actuators)
    assert judge(replace(body, actuators=actuators), (1, 2)).fault == "simulation"


def test_a_warning_of_the_engine_ends_a_simulation_whose_state_is_finite(body, monkeypatch):
    model = _model(body)
    assert simulate_randomly(body, model, 4, np.random.default_rng(0)) is not None
    monkeypatch.setattr(judge_module, "has_warned", lambda data: data.time > 0.05)
    assert simulate_randomly(body, model, 2, np.random.default_rng(0)) is not None
    assert simulate_randomly(body, model, 4, np.random.default_rng(0)) is None


def test_openings_are_shares_of_the_shorter_limb(looped):
    openings = simulate_randomly(looped, _model(looped), 50, np.random.default_rng(0))
    assert openings.shape == (50, 1)
    assert 0.0 < openings.max() < 0.2
    # Without its constraint the loop opens as far as the limbs swing.
    model = _model(looped)
    model.eq_active0[:] = 0
    loose = simulate_randomly(looped, model, 50, np.random.default_rng(0))
    assert loose.max() > 0.3


def test_a_torso_does_not_count_as_the_shorter_limb(looped):
    length = np.linalg.norm(looped.limbs[1].geom.end)
    assert judge_module._loop_length(looped, 1, 0) == pytest.approx(length)


def test_openings_are_the_engines_own(looped):
    """In free fall, where one engine step follows another, they are the constraint's violation."""
    model = _model(looped)
    openings = simulate_randomly(looped, model, 20, np.random.default_rng(0))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    loop = looped.loops[0]
    ends = [looped.limbs[limb].geom.end for limb in (loop.first, loop.second)]
    length = min(np.linalg.norm(end) for end in ends)
    for opening in openings:
        data.ctrl[:] = rng.uniform(-1.0, 1.0, size=model.nu)
        mujoco.mj_step(model, data, 4)
        mujoco.mj_fwdPosition(model, data)
        closing = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        assert opening[0] * length == pytest.approx(np.linalg.norm(data.efc_pos[closing]), abs=1e-7)


def test_a_body_whose_loop_gives_way_is_turned_down(looped, viable, monkeypatch):
    monkeypatch.setattr(judge_module, "LOOP_STEPS", 20)
    openings = np.full((20, 1), 0.003)
    monkeypatch.setattr(judge_module, "simulate_randomly", lambda *_: openings)
    verdict = judge(looped, (0, 0))
    assert (verdict.fault, verdict.median_residual, verdict.high_residual) == ("", 0.003, 0.003)
    openings[0] = 0.5
    assert judge(looped, (0, 0)).fault == "loops"
    openings[:] = 0.004  # within the limit of 0.005, but not by the margin
    assert judge(looped, (0, 0)).fault == "loops"
    openings[:] = 0.001
    for highest, fault in ((0.014, ""), (0.018, "loops")):  # likewise, of 0.02
        openings[:2] = highest
        assert judge(looped, (0, 0)).fault == fault


@pytest.mark.parametrize("loops", [0, 1])
def test_controls_follow_from_the_seed_and_are_other_ones_in_every_run(
    body, looped, viable, monkeypatch, loops
):
    """Ten seconds in steps of 0.02 s, or five times twenty seconds where there is a loop."""
    seen = []

    def record(body, model, steps, rng):
        seen.append((steps, rng.uniform()))
        return np.zeros((steps, loops))

    monkeypatch.setattr(judge_module, "simulate_randomly", record)
    for seed in ((1, 2), (1, 2), (1, 3), (2, 2)):
        assert judge(looped if loops else body, seed).fault == ""
    runs = 5 if loops else 1
    assert {steps for steps, _ in seen} == {1000 if loops else 500}
    assert len(seen) == 4 * runs
    assert seen[:runs] == seen[runs : 2 * runs]
    assert len({drawn for _, drawn in seen}) == 3 * runs
    assert seen[0][1] == np.random.default_rng([1, 2, 2]).uniform()


def test_the_opening_is_a_median_over_time_and_the_worst_of_all_runs(looped, viable, monkeypatch):
    runs = iter([0.001, 0.003, 0.002, 0.0, 0.001])
    peaks = iter([0.012, 0.011, 0.014, 0.012, 0.013])

    def mostly(*_):
        """Five steps in a hundred are open wider, which a mean would see."""
        openings = np.full((100, 1), next(runs))
        openings[:5] = next(peaks)
        return openings

    monkeypatch.setattr(judge_module, "simulate_randomly", mostly)
    verdict = judge(looped, (0, 0))
    assert (verdict.median_residual, verdict.high_residual, verdict.fault) == (0.003, 0.014, "")


@pytest.mark.parametrize(("steps", "fault"), [(1, ""), (5, "loops")])
def test_a_loop_may_open_in_one_step_of_a_thousand_but_not_in_five(
    looped, viable, monkeypatch, steps, fault
):
    openings = np.full((1000, 1), 0.001)
    openings[:steps] = 0.018
    monkeypatch.setattr(judge_module, "simulate_randomly", lambda *_: openings)
    assert judge(looped, (0, 0)).fault == fault


def test_two_loops_are_judged_by_the_worse(looped, viable, monkeypatch):
    others = [i for i in range(1, looped.num_limbs) if looped.limbs[i].parent > 0]
    second = Loop(first=others[-1], second=0, anchor=(0.0, 0.0, 0.0))
    twice = replace(looped, loops=(*looped.loops, second))
    openings = np.stack([np.full(20, 0.001), np.full(20, 0.03)], axis=1)
    openings[:5, 0] = 0.1
    openings[:9, 1] = 0.0  # a median over both loops would be 0.001
    monkeypatch.setattr(judge_module, "simulate_randomly", lambda *_: openings)
    verdict = judge(twice, (0, 0))
    assert (verdict.median_residual, verdict.high_residual) == (0.03, 0.1)
