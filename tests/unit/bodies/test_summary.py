import json
from dataclasses import replace

import pytest

from gmc_bench.bodies.mjcf import parse_mjcf
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.summary import describe_set, render_set


@pytest.fixture
def bodies(tiny_body):
    body = parse_mjcf(tiny_body, "one")
    smaller = replace(body, name="two", limbs=body.limbs[:2], actuators=body.actuators[:2])
    return MorphologySet(
        id="some-set",
        splits={"train": (body, replace(body, name="same"), smaller), "test": (smaller,)},
        source="Made for a test.",
    )


def test_numbers_are_those_of_the_bodies(bodies):
    description = describe_set(bodies)
    train, test = description["splits"]["train"], description["splits"]["test"]

    assert (train["count"], train["distinct"]) == (3, 2)
    assert train["limb_histogram"] == {"2": 1, "3": 2}
    assert train["duplicates"] == [["one", "same"]]
    assert train["measures"]["limbs"] == {"min": 2, "mean": pytest.approx(8 / 3), "max": 3}
    assert train["measures"]["actuators"] == {"min": 2, "mean": pytest.approx(8 / 3), "max": 3}
    # Gears: (150 + 200 + 250) / 3 twice, (150 + 200) / 2 once.
    assert train["measures"]["mean gear, N m"] == {
        "min": 175,
        "mean": pytest.approx((200 + 200 + 175) / 3),
        "max": 200,
    }
    assert test["measures"]["depth"] == {"min": 1, "mean": 1, "max": 1}
    assert test["measures"]["start height, m"] == {"min": 0.5, "mean": 0.5, "max": 0.5}
    assert test["seen_in_train"] == ["two"]
    assert "seen_in_train" not in train


def test_gears_are_measured_by_their_size_in_columns_of_their_own(bodies):
    def turned(body):
        motors = (
            replace(motor, gear=-motor.gear / 1.23456e7 * (-1) ** number)
            for number, motor in enumerate(body.actuators)
        )
        return replace(body, actuators=tuple(motors))

    splits = {split: tuple(map(turned, members)) for split, members in bodies.splits.items()}
    description = describe_set(replace(bodies, splits=splits))
    gears = description["splits"]["train"]["measures"]["mean gear, N m"]
    assert gears["min"] == pytest.approx(175 / 1.23456e7)
    lines = render_set(description).splitlines()
    row = next(line for line in lines if line.startswith("mean gear"))
    assert " ".join(row[18:].split()) == (
        "1.418e-05 / 1.553e-05 / 1.62e-05 1.418e-05 / 1.418e-05 / 1.418e-05"
    )
    assert {len(line) for line in lines[3:13]} == {len(row)}


def test_description_is_json(bodies):
    description = describe_set(bodies)
    assert json.loads(json.dumps(description)) == description
    assert description["digest"] == bodies.digest


def test_table_shows_the_numbers(bodies):
    lines = render_set(describe_set(bodies)).splitlines()
    cells = {line[:18].strip(): line[18:].split() for line in lines}
    assert cells["bodies"] == ["3", "1"]
    assert cells["distinct bodies"] == ["2", "1"]
    assert " ".join(cells["limbs"]) == "2 / 2.667 / 3 2 / 2 / 2"
    assert "bodies by limbs, train  2: 1  3: 2" in lines
    assert "same body, train  one = same" in lines
    assert "also in train  two" in lines
