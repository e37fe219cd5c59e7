"""The record of a verification: it cannot contradict itself, and is never changed unnoticed."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gmc_bench.core.errors import RecordError
from gmc_bench.records.store import canonical_json, seal, sealed, write_atomic
from gmc_bench.records.verification import Verification, read_verification
from tests.support.records import digest_of, make_record

FIELDS: dict[str, Any] = {
    "record_digest": digest_of("record"),
    "weights_digest": digest_of("weights"),
    "created": "2025-01-31T23:59:59Z",
    "comparison": "exact",
    "parts": [
        {
            "split": "test",
            "mode": "deterministic",
            "episodes": 3,
            "differing": 0,
            "mean_difference": 0.0,
            "margin": None,
            "passed": True,
        }
    ],
    "first_difference": None,
    "passed": True,
    "hardware": make_record().hardware.model_dump(),
    "versions": make_record().versions,
    "git_commit": None,
    "git_dirty": None,
}
PART = FIELDS["parts"][0]
EPISODE = {"episode_return": 1.5, "length": 10, "ended": "fell"}
DIFFERENCE = {
    "split": "test",
    "mode": "deterministic",
    "body": "a",
    "episode": 2,
    "recorded": EPISODE,
    "found": {**EPISODE, "episode_return": -0.25},
}


def _make(**changes: Any) -> Verification:
    return Verification.model_validate({**FIELDS, **changes})


def _failed() -> Verification:
    part = {**PART, "differing": 1, "mean_difference": -0.5, "passed": False}
    return _make(parts=[part], first_difference=DIFFERENCE, passed=False)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "one.json"
    for verification in (_make(), _failed()):
        write_atomic(path, seal(verification))
        found, digest = read_verification(path)
        assert found == verification
        assert path.read_bytes() == seal(verification)
        content = json.loads(path.read_bytes())
        assert content.pop("digest") == digest
        assert path.read_bytes() == sealed(content)


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    data = seal(_failed())
    for place in range(0, len(data), 5):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(RecordError):
            read_verification(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"passed": False}, "passed is not whether all parts passed"),
        ({"passed": 1}, r"passed\n  Input should be a valid boolean"),
        ({"parts": []}, r"parts\n  Tuple should have at least 1 item"),
        ({"parts": [PART, PART]}, "parts lists one split and mode twice"),
        ({"parts": [{**PART, "passed": False}], "passed": False}, "contradicts its numbers"),
        ({"parts": [{**PART, "margin": 1.0}]}, "a margin belongs to an interval comparison"),
        ({"parts": [{**PART, "differing": 1}]}, "contradicts its numbers"),
        (
            {"parts": [{**PART, "differing": 1, "passed": False}], "passed": False},
            "first_difference must be given exactly when an episode differs",
        ),
        (
            {"parts": [{**PART, "differing": 4, "passed": False}], "passed": False},
            "more episodes differ in test, deterministic than were run",
        ),
        ({"parts": [{**PART, "episodes": 0}]}, r"parts\.0\.episodes\n  Input should be greater"),
        ({"first_difference": DIFFERENCE}, "given exactly when an episode differs"),
        ({"comparison": "interval"}, "a margin belongs to an interval comparison"),
        ({"comparison": "close"}, "Input should be 'exact' or 'interval'"),
        ({"created": "2025-01-31T23:59:59+01:00"}, "is not a UTC time"),
        ({"created": "yesterday"}, "Invalid isoformat string: 'yesterday'"),
        ({"record_digest": "abc"}, r"record_digest\n  String should match pattern"),
        ({"hardware": None}, r"hardware\n  Input should be a valid dictionary"),
        ({"verification_version": 2}, r"verification_version\n  Input should be 1"),
        ({"reviewer": "me"}, r"reviewer\n  Extra inputs are not permitted"),
    ],
)
def test_a_contradiction_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _make(**changes)
    # Sealed by somebody else, it is refused as well, in one sentence.
    path = tmp_path / "one.json"
    path.write_bytes(sealed({**_make().model_dump(mode="json"), **changes}))
    with pytest.raises(RecordError, match=r"one\.json does not fit: ") as caught:
        read_verification(path)
    assert "\n" not in str(caught.value)


def test_the_margin_decides_an_interval_comparison() -> None:
    def part(mean: float, margin: float, passed: bool) -> dict[str, Any]:
        changes = {"mean_difference": mean, "margin": margin, "passed": passed}
        return {**PART, **changes, "differing": 2}

    inside = _make(
        comparison="interval", parts=[part(-1.0, 1.0, True)], first_difference=DIFFERENCE
    )
    assert inside.passed
    for wrong in (part(-1.5, 1.0, True), part(0.5, 1.0, False)):
        with pytest.raises(ValidationError, match="contradicts its numbers"):
            _make(
                comparison="interval",
                parts=[wrong],
                passed=wrong["passed"],
                first_difference=DIFFERENCE,
            )


def _friction(**changes: Any) -> dict[str, Any]:
    equal = {
        "results": 32,
        "differing": 0,
        "chance": None,
        "first_difference": None,
        "passed": True,
    }
    return {**equal, **changes}


def test_unlikely_bodies_fail_within_the_margin() -> None:
    def judged(chance: float, passed: bool) -> Verification:
        part = {**PART, "differing": 2, "margin": 1.0, "chance": chance, "passed": passed}
        changes = {"first_difference": DIFFERENCE, "passed": passed}
        return _make(comparison="interval", parts=[part], **changes)

    assert judged(0.002, True).outcome == ("1 episodes equal, 2 within chance (another machine)")
    assert judged(0.0005, False).outcome.startswith(
        "returns, lengths or ends of the bodies of test, deterministic differ from those found by "
        "more than chance allows (probability 0.0005); the first is episode 2 of test body 'a'"
    )
    for chance, passed in ((0.002, False), (0.0005, True)):
        with pytest.raises(ValidationError, match="contradicts its numbers"):
            judged(chance, passed)


def test_where_most_episodes_are_equal_all_must_be() -> None:
    equal = {**PART, "mode": "stochastic", "margin": 0.0, "chance": 1.0}

    def judged(differing: int, passed: bool, *others: dict[str, Any]) -> Verification:
        likely = {"differing": differing, "margin": 1.0, "chance": 0.5, "passed": passed}
        changes = {
            "parts": [{**PART, "episodes": 4, **likely}, *others],
            "first_difference": DIFFERENCE,
        }
        return _make(comparison="interval", passed=passed, **changes)

    assert judged(3, True).outcome == "1 episodes equal, 3 within chance (another machine)"
    assert judged(2, False).outcome.startswith(
        "2 of 4 episodes differ, but so many are equal to the last bit that this machine computes "
        "like the record's, and all must be equal but for rounding; the first is episode 2 of test "
        "body 'a'"
    )
    counting = {**equal, "counted": True}
    assert judged(4, True, counting).outcome.startswith("3 episodes equal, 4 within chance")
    # Equal episodes of one part speak about the others.
    assert judged(4, False, equal).outcome.startswith("4 of 7 episodes differ, but so many")
    for differing, passed in ((2, True), (3, False)):
        with pytest.raises(ValidationError, match="contradicts its numbers"):
            judged(differing, passed)
    # Of a return the last bits may be others.
    sums = {**equal, "differing": 1, "rounded": 1}
    summed = _make(comparison="interval", parts=[sums], first_difference=DIFFERENCE)
    assert summed.outcome == "2 episodes equal, 1 within rounding (another machine)"
    for change in ({"rounded": 0}, {"rounded": 2}, {"passed": False}):
        passed = change.get("passed", True)
        with pytest.raises(ValidationError, match="contradicts its numbers"):
            _make(
                comparison="interval",
                parts=[{**sums, **change}],
                first_difference=DIFFERENCE,
                passed=passed,
            )
    with pytest.raises(ValidationError, match="rounded of test, stochastic contradicts"):
        _make(parts=[{**sums, "margin": None, "chance": None}], first_difference=DIFFERENCE)
    frictions = {**_friction(), "chance": 0.5}
    assert _make(comparison="interval", parts=[equal], friction=frictions).outcome == (
        "3 episodes equal, 0 within chance, 32 results on friction within chance (another machine)"
    )


def test_frictions_that_differ_fail() -> None:
    assert _make(friction=_friction()).outcome == "3 episodes and 32 results on friction equal"
    differing = _friction(differing=1, first_difference="the rmse of go1", passed=False)
    assert _make(friction=differing, passed=False).outcome == (
        "1 of 32 results on friction differ; the first is the rmse of go1"
    )
    contradictions: list[tuple[dict[str, Any], str]] = [
        ({"differing": 33, "first_difference": "x", "passed": False}, "more results on friction"),
        ({"differing": 1, "first_difference": "x"}, "passed of friction contradicts its numbers"),
        ({"differing": 1, "passed": False}, "given exactly when a friction differs"),
        ({"first_difference": "x"}, "given exactly when a friction differs"),
        ({"passed": False}, "passed of friction contradicts its numbers"),
        ({"chance": 0.5}, "the chance of frictions belongs to an interval comparison"),
    ]
    for wrong, message in contradictions:
        item = _friction(**wrong)
        with pytest.raises(ValidationError, match=message):
            _make(friction=item, passed=item["passed"])
    with pytest.raises(ValidationError, match="passed is not whether all parts passed"):
        _make(friction=differing)


def test_a_record_is_no_verification(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(sealed(make_record().model_dump(mode="json")))
    with pytest.raises(RecordError, match="does not fit: "):
        read_verification(path)
    path.write_bytes(canonical_json(FIELDS) + b"\n")
    with pytest.raises(RecordError, match="has no digest"):
        read_verification(path)
    with pytest.raises(RecordError, match="cannot read"):
        read_verification(tmp_path / "absent.json")
