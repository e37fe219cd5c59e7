"""A record means what its fields say, or it does not exist."""

import hashlib
import json
import math
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gmc_bench.records import parts
from gmc_bench.records.schema import REQUIRED_VERSIONS, RunRecord
from tests.support.records import UNTRAINED, digest_of, make_friction, make_record, make_returns

TRAIN = make_returns("train", {"a": [50.0, 150.0], "b": [200.0]})


def test_scores_by_hand() -> None:
    # train: ((50 + 150) / 2 + 200) / 2; test without b: ((10 + 30) / 2 + 40) / 2.
    record = make_record()
    assert record.score("train", "deterministic") == 150.0
    assert record.score("test", "deterministic") == 30.0


def test_score_weighs_bodies_not_episodes() -> None:
    test = make_returns("test", {"c": [0.0] * 9, "d": [100.0], "e": [100.0]})
    assert make_record(returns=test).score("test", "deterministic") == pytest.approx(200 / 3)


def test_a_missing_body_makes_the_score_none_not_a_mean_of_the_rest() -> None:
    record = make_record(returns=TRAIN + make_returns("test", {"c": [10.0], "d": [40.0]}))
    assert record.score("test", "deterministic") is None
    assert record.score("train", "deterministic") == 150.0


def test_modes_are_kept_apart() -> None:
    stochastic = make_returns("train", {"a": [1.0], "b": [3.0]}, mode="stochastic")
    record = make_record(returns=TRAIN + stochastic)
    assert record.score("train", "stochastic") == 2.0
    assert record.score("train", "deterministic") == 150.0
    assert record.score("test", "stochastic") is None


def test_no_zero_shot_score_when_every_test_body_was_seen() -> None:
    test = make_returns("test", {"b": [1.0], "x": [2.0], "y": [3.0]}, seen={"b", "x", "y"})
    record = make_record(returns=test)
    assert record.score("test", "deterministic") is None


def test_incomplete_run_has_no_score() -> None:
    record = make_record(
        status="incomplete",
        official=False,
        unofficial_reasons=["stopped early"],
        env_steps_planned=4000,
        weights_digest=None,
    )
    assert record.score("train", "deterministic") is None
    assert record.score("test", "deterministic") is None


HUGE = {**make_record().returns[0].episodes[0].model_dump(), "episode_return": 1e308}


def _changed(*, split: str, body: str, **changes: Any) -> list[dict[str, Any]]:
    found = [item.model_dump() for item in make_record().returns]
    for item in found:
        if (item["split"], item["body"]) == (split, body):
            item.update(changes)
    return found


CONFIG = {"training": {"gamma": 0.99}}
HARDWARE = {"cpu": "x", "cores": 1, "threads": 1, "memory_gib": 1.0, "gpu": None, "platform": "x"}
CLOCK = {"total": 10.0, "simulation": 4.0, "policy": 2.0, "update": 3.0, "other": 1.0}
SET = make_record().morphologies.model_dump()
CURVE = [item.model_dump() for item in make_record().learning_curve]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": 5.0}, "Extra inputs"),
        ({"hardware": {**HARDWARE, "fan": "loud"}}, "Extra inputs"),
        ({"schema_version": 1}, "Input should be 2"),
        ({"method": "../escape"}, "method"),
        ({"method": ".hidden"}, "method"),
        ({"suite": "unimal"}, "suite"),
        ({"task": "unimal-ft"}, "task"),
        ({"task": "unimal-ft-v0"}, "task"),
        ({"protocol_digest": "ABC"}, "protocol_digest"),
        ({"weights_digest": "0" * 63}, "weights_digest"),
        ({"morphologies": {**SET, "digest": "x" * 64}}, "morphologies.digest"),
        ({"morphologies": {**SET, "num_test": 0}}, "morphologies.num_test"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"parameters": 0}, "parameters"),
        ({"parameters": "1000"}, "parameters"),
        ({"official": "yes"}, "official"),
        ({"training_return": math.nan}, "finite"),
        ({"env_steps_per_s": math.inf}, "finite"),
        ({"training_return": -1e308}, "greater than or equal to -1000"),
        (
            {"returns": _changed(split="test", body="c", episodes=[HUGE, HUGE])},
            "less than or equal",
        ),
        ({"diverged_episodes": -1}, "diverged_episodes"),
        ({"created": "yesterday"}, "created"),
        ({"created": "2025-01-31T23:59:59"}, "not a UTC time"),
        ({"created": "2025-01-31T23:59:59+01:00"}, "not a UTC time"),
        ({"versions": dict.fromkeys(REQUIRED_VERSIONS[1:], "1")}, "version of gmc-bench"),
        ({"config": {"lr": math.inf}}, r"config\.lr is inf"),
        ({"config": {"a": [1, (2, 3)]}}, r"config\.a\.1 is a tuple"),
        ({"config": {"a": {1: 2}}}, r"key 1 in config\.a is not a string"),
        ({"config": {"a": "\ud800"}}, r"config\.a is not valid Unicode"),
        ({"config": {"a": {"\ud800": 1}}}, r"a key of config\.a is not valid Unicode"),
        ({"config": {"a": json.loads("[" * 63 + "]" * 63)}}, "nested more than 64 levels deep"),
        ({"config": CONFIG, "config_digest": digest_of("other")}, "not the digest of config"),
        ({"official": False}, "exactly when unofficial_reasons is empty"),
        ({"unofficial_reasons": ["fewer steps"]}, "exactly when unofficial_reasons is empty"),
        ({"status": "incomplete"}, "incomplete run cannot be official"),
        ({"env_steps_planned": 4000}, "2000 of 4000 planned steps"),
        ({"weights_digest": None}, "no weights_digest"),
        ({"protocol_seeds": [1, 2]}, "seed 0, which is not one of protocol_seeds"),
        ({"protocol_seeds": [0, 0]}, "protocol_seeds repeat"),
        ({"controller": "single_robot"}, "has no weights for test bodies"),
        ({"untrained": True}, "exactly when no env steps were planned"),
        ({"env_steps_planned": 0}, "exactly when no env steps were planned"),
        ({"untrained": False}, "untrained is true or absent"),
        ({**UNTRAINED, "learning_curve": CURVE[:1]}, "has no learning_curve"),
        ({**UNTRAINED, "training_return": 1.0}, "and no training_return"),
        ({"git_dirty": None}, "both be given or both be null"),
        ({"git_commit": "abc", "git_dirty": False}, "git_commit"),
        ({"wall_clock_s": {**CLOCK, "other": 2.0}}, "add up to 11 s but the total is 10 s"),
        ({"env_steps_per_s": 300.0}, "not env_steps / wall_clock_s.total"),
        ({"learning_curve": [CURVE[1], CURVE[0]]}, "do not rise"),
        ({"learning_curve": [CURVE[0], CURVE[0]]}, "do not rise"),
        ({"learning_curve": [CURVE[0], {**CURVE[1], "episodes": 0}]}, "episodes .* fall"),
        ({"learning_curve": [{**CURVE[1], "env_steps": 2001}]}, "goes beyond env_steps"),
        ({"learning_curve": ()}, "does not end at env_steps"),
        ({"learning_curve": [{**CURVE[1], "env_steps": 1999}]}, "does not end at env_steps"),
        (
            {"training_return": 900.0, "learning_curve": CURVE},
            "not the mean_return at the end of the learning_curve",
        ),
        (
            {"training_return": None, "learning_curve": CURVE},
            "not the mean_return at the end of the learning_curve",
        ),
        ({"returns": _changed(split="test", body="c", episodes=[])}, "at least 1 item"),
        ({"returns": _changed(split="train", body="a", seen_in_train=False)}, "seen_in_train true"),
        ({"returns": _changed(split="test", body="b", seen_in_train=False)}, "is a train body"),
        ({"returns": TRAIN + TRAIN}, "lists train body 'a' twice as deterministic"),
        (
            {"returns": (*TRAIN, *make_returns("train", {"c": [1.0]}))},
            "3 train bodies, more than morphologies states",
        ),
        (
            {
                "returns": [
                    TRAIN[0],
                    TRAIN[0].model_copy(
                        update={"mode": "stochastic", "body_digest": digest_of("z")}
                    ),
                ]
            },
            "'a' two body_digests",
        ),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_record(**changes)


def test_a_robot_goes_once_in_each_direction_on_each_friction() -> None:
    ahead = make_friction(robots=1)
    left = {**ahead[0], "direction": "left"}
    assert make_record(friction=[*ahead, left]).friction[-1].went == "left"  # type: ignore[index]
    for again in (ahead[0], left):
        with pytest.raises(ValidationError, match="robot twice on one friction in one direction"):
            make_record(friction=[*ahead, left, again])


def test_parts_of_a_short_time_may_miss_it_by_a_hundredth_of_a_second() -> None:
    for other, fits in ((0.009, True), (0.011, False)):
        clock = {"total": 0.1, "simulation": 0.1, "policy": 0.0, "update": 0.0, "other": other}
        if fits:
            make_record(wall_clock_s=clock, env_steps_per_s=20_000.0)
        else:
            with pytest.raises(ValidationError, match="add up to"):
                make_record(wall_clock_s=clock, env_steps_per_s=20_000.0)


def test_a_stated_throughput_may_miss_that_of_the_clock_by_a_twentieth() -> None:
    for stated in (191.0, 209.0):
        assert make_record(env_steps_per_s=stated).env_steps_per_s == stated
    for stated in (188.0, 212.0):
        with pytest.raises(ValidationError, match=r"not env_steps / wall_clock_s\.total"):
            make_record(env_steps_per_s=stated)


def test_no_episode_need_end_between_two_points_of_the_learning_curve() -> None:
    curve = [CURVE[0], {**CURVE[1], "episodes": CURVE[0]["episodes"]}]
    assert make_record(learning_curve=curve).learning_curve[1].episodes == 1


@pytest.mark.parametrize("field", ["seed", "config", "returns", "versions", "unofficial_reasons"])
def test_refuses_a_missing_field(field: str) -> None:
    content = make_record().model_dump()
    del content[field]
    with pytest.raises(ValidationError, match=field):
        RunRecord.model_validate(content)


@pytest.mark.parametrize(("processes", "cores"), [(None, 2), (1, 2), (3, 6)])
def test_core_seconds_are_of_the_threads_of_all_processes(
    processes: int | None, cores: int
) -> None:
    machine = make_record().hardware.model_dump()
    hardware = {**machine, "threads": 2, "processes": processes}
    record = make_record(hardware=hardware)
    assert record.core_seconds == cores * record.wall_clock_s.total == cores * 10.0


def test_as_many_further_seeds_may_be_official_as_the_protocol_asks_for() -> None:
    assert make_record(protocol_seeds=[0, 1], seed=3).official
    with pytest.raises(ValidationError, match="seed 4, which is not one of protocol_seeds"):
        make_record(protocol_seeds=[0, 1], seed=4)


def test_every_field_is_described() -> None:
    models = [RunRecord] + [
        found
        for found in vars(parts).values()
        if isinstance(found, type) and issubclass(found, BaseModel) and found.model_fields
    ]
    assert len(models) == 11
    bare = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert bare == []


def test_is_frozen() -> None:
    record = make_record()
    with pytest.raises(ValidationError, match="frozen"):
        record.seed = 1  # type: ignore[misc]


def test_whole_numbers_are_accepted_where_a_float_is_meant() -> None:
    assert make_record(training_return=90) == make_record(training_return=90.0)


def test_config_digest_is_that_of_the_sorted_compact_json() -> None:
    text = b'{"training":{"gamma":0.99}}'
    assert make_record(config=CONFIG).config_digest == hashlib.sha256(text).hexdigest()
