from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation import measures
from gmc_bench.generation.bodies import grow_clear_body
from gmc_bench.generation.judge import judge
from gmc_bench.generation.measures import MEASURES, comparison_table, measure_body, measure_set
from gmc_bench.generation.released import build_released
from gmc_bench.generation.viability import Viability, assess_viability


@pytest.fixture(scope="module")
def mini():
    return build_released("gmc-unimal-mini-v1")


def test_a_body_is_measured(mini):
    body = mini.split("train")[0]
    found = measure_body(body, behaviour=False)
    assert (found.limbs, found.joints, found.loops) == (body.num_limbs, body.num_joints, 0)
    volume = sum(
        limb.geom.density
        * (
            4 / 3 * np.pi * limb.geom.radius**3
            + np.pi * limb.geom.radius**2 * np.linalg.norm(limb.geom.end)
        )
        for limb in body.limbs
    )
    assert found.mass == pytest.approx(volume)
    assert found.gear == np.mean([a.gear for a in body.actuators])
    assert found.height == body.limbs[0].position[2]
    turned = replace(body, actuators=tuple(replace(a, gear=-a.gear) for a in body.actuators))
    assert measure_body(turned, behaviour=False).gear == found.gear
    assert found.distance is None
    looped = grow_clear_body(np.random.default_rng(0), 7, "b", loops=1)
    assert measure_body(looped, behaviour=False).loops == 1


def test_a_body_that_the_engine_refuses_is_named(mini):
    body = mini.split("train")[0]
    geom = replace(body.limbs[-1].geom, density=1e-14)
    light = replace(body, limbs=(*body.limbs[:-1], replace(body.limbs[-1], geom=geom)))
    for ask in (
        lambda: measure_body(light, behaviour=False),
        lambda: judge(light, (0, 0)),
        lambda: assess_viability(light, np.random.default_rng(0)),
    ):
        with pytest.raises(MorphologyError, match=f"body {body.name!r} does not compile .*mass"):
            ask()


def test_a_body_on_its_torso_stands_and_one_in_the_air_or_in_trouble_falls(monkeypatch):
    body = grow_clear_body(np.random.default_rng(4), 1, "b")
    torso = body.limbs[0]
    lying = replace(body, limbs=(replace(torso, position=(0.0, 0.0, 0.3)), *body.limbs[1:]))
    dropped = replace(body, limbs=(replace(torso, position=(0.0, 0.0, 3.0)), *body.limbs[1:]))
    assert measure_body(lying, behaviour=True).stands == 1.0
    found = measure_body(dropped, behaviour=True)
    assert (found.stands, found.distance, found.survives) == (0.0, 0.0, 0.0)
    drawn = []

    def assess(body, rng):
        drawn.append(rng.random())
        return Viability(0.25, 0.5)

    monkeypatch.setattr(measures, "assess_viability", assess)
    for other in (lying, replace(lying, name="again"), dropped):
        found = measure_body(other, behaviour=True)
        assert (found.distance, found.survives) == (0.25, 0.5)
    assert drawn[0] == drawn[1] != drawn[2]  # gaits follow from the body's hash
    assert drawn[0] == np.random.default_rng(int(lying.digest[:16], 16)).random()
    monkeypatch.setattr(measures, "has_warned", lambda data: True)
    assert measure_body(lying, behaviour=True).stands == 0.0


def test_a_set_is_measured_by_split(mini):
    counted = []
    found = measure_set(mini, behaviour=False, on_body=lambda: counted.append(1))
    assert len(counted) == 40
    limbs = [body.num_limbs for body in mini.split("train")]
    measured = found["splits"]["train"]["measures"]["limbs"]
    assert measured["mean"] == np.mean(limbs)
    assert (measured["low"], measured["high"]) == tuple(np.percentile(limbs, [10, 90]))
    assert "stands" not in found["splits"]["train"]["measures"]


def test_a_limit_takes_bodies_from_the_whole_split(mini):
    found = measure_set(mini, behaviour=False, limit=4)
    assert (found["splits"]["test"]["count"], found["splits"]["test"]["measured"]) == (20, 4)
    more = measure_set(mini, behaviour=False, limit=21)  # no body is measured twice
    assert more["splits"] == measure_set(mini, behaviour=False)["splits"]
    every_fifth = mini.split("test")[::5]
    assert found["splits"]["test"]["measures"]["limbs"]["mean"] == np.mean(
        [body.num_limbs for body in every_fifth]
    )


def test_sets_stand_side_by_side(mini, monkeypatch):
    monkeypatch.setattr(measures, "assess_viability", lambda *_: Viability(1.0, 0.5))
    small = MorphologySet(
        id="small", splits={split: mini.split(split)[:1] for split in mini.splits}, source=""
    )
    table = comparison_table([
        measure_set(mini, behaviour=False),
        measure_set(small, behaviour=True),
    ])  # fmt: skip
    lines = table.splitlines()
    header = "| | gmc-unimal-mini-v1 train | gmc-unimal-mini-v1 test | small train | small test |"
    assert lines[0] == header
    assert "| bodies | 20 | 20 | 1 | 1 |" in lines
    assert all(line.count("|") == 6 for line in lines)
    rows = {line.split("|")[1].strip(): line for line in lines}
    assert set(MEASURES.values()) <= set(rows)
    assert rows[MEASURES["distance"]].startswith(f"| {MEASURES['distance']} | - | - | 1.00 ")


def test_cells_hold_the_mean_and_between_brackets_the_percentiles():
    """As many digits as the measure is worth; a share of bodies that stand has no percentiles."""
    spread = {"mean": 7.256, "low": 4.0, "high": 11.504}
    part = {"count": 9, "measured": 3, "measures": dict.fromkeys(MEASURES, spread)}
    lines = comparison_table([{"id": "s", "splits": {"train": part}}]).splitlines()
    assert lines[2:4] == ["| bodies | 9 |", "| measured | 3 |"]
    cells = dict(zip(MEASURES, (line.split(" | ")[1][:-2] for line in lines[4:]), strict=True))
    assert cells == {
        "limbs": "7.3 (4-12)",
        "joints": "7.3 (4-12)",
        "loops": "7.26 (4-12)",
        "mass": "7.3 (4.0-11.5)",
        "height": "7.26 (4.00-11.50)",
        "gear": "7 (4-12)",
        "stands": "7.26",
        "distance": "7.26 (4.00-11.50)",
        "survives": "7.26 (4.00-11.50)",
    }
