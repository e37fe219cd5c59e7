from dataclasses import replace

import pytest

from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import ConfigError
from gmc_bench.suites.measured import FrictionMeasurement
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.schema import Suite, TaskRules
from gmc_bench.suites.specialist import SpecialistRules

FAST = Protocol(name="fast", preset="lite", env_steps=100, num_envs=1, rollout_length=10)
SLOW = Protocol(name="slow", preset="lite", env_steps=900, num_envs=1, rollout_length=10)


def _suite(**changes):
    fields = {
        "id": "demo-v1",
        "title": "Demo",
        "description": "For tests.",
        "tasks": ("demo-ft-v1", "demo-hill-climb-v2"),
        "default_morphologies": ("demo-set-v1",),
        "min_token_slots": 4,
        "protocols": {"fast": FAST, "slow": SLOW},
        "default_protocol": "fast",
    }
    return Suite(**{**fields, **changes})


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("demo-ft-v1", "demo-ft-v1"),
        ("demo-ft", "demo-ft-v1"),
        ("ft", "demo-ft-v1"),
        ("demo-hill-climb-v2", "demo-hill-climb-v2"),
        ("demo-hill-climb", "demo-hill-climb-v2"),
        ("hill-climb", "demo-hill-climb-v2"),
    ],
)
def test_a_task_is_found_by_its_full_and_its_short_names(name, task):
    assert _suite().task(name) == task


@pytest.mark.parametrize("name", ["fft", "", "v1", "climb", "demo-ft-v2"])
def test_an_unknown_task_is_refused(name):
    with pytest.raises(ConfigError, match=f"suite 'demo-v1' has no task '{name}'"):
        _suite().task(name)


def test_an_unknown_task_names_the_closest():
    with pytest.raises(ConfigError, match="did you mean 'hill-climb'"):
        _suite().task("hill-clmb")
    with pytest.raises(ConfigError, match="known: ft, hill-climb"):
        _suite().task("zzzz")


def test_a_task_without_a_family_has_no_empty_name():
    with pytest.raises(ConfigError, match="has no task ''"):
        _suite(tasks=("run-v1",)).task("")
    assert _suite(tasks=("run-v1",)).task("run") == "run-v1"


def test_a_protocol_is_found_by_name_and_the_default_by_none():
    suite = _suite()
    assert suite.protocol("slow") is SLOW
    assert suite.protocol(None) is FAST
    with pytest.raises(ConfigError, match="no protocol 'slaw'; did you mean 'slow'"):
        suite.protocol("slaw")


def test_protocols_must_be_listed_under_their_own_names():
    with pytest.raises(ConfigError, match="suite 'demo-v1' lists the protocol 'slow' as 'fast'"):
        _suite(protocols={"fast": SLOW})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ()}, r"'tasks' of the suite 'demo-v1' must be a tuple of ids, .* got \(\)"),
        ({"tasks": "demo-ft-v1"}, "must be a tuple of ids, at least one, got 'demo-ft-v1'"),
        ({"default_morphologies": ()}, "'default_morphologies' of the suite 'demo-v1' must be a"),
        ({"default_morphologies": (None,)}, r"at least one, got \(None,\)"),
        ({"min_token_slots": 0}, "'min_token_slots' of .* integer from 1 to 10,000, got 0"),
        ({"min_token_slots": "12"}, "integer from 1 to 10,000, got '12'"),
        ({"min_token_slots": 10_001}, "integer from 1 to 10,000, got 10001"),
    ],
)
def test_a_suite_has_tasks_bodies_and_room_for_them(changes, message):
    with pytest.raises(ConfigError, match=message):
        _suite(**changes)


def test_the_default_protocol_must_exist():
    with pytest.raises(ConfigError, match="suite 'demo-v1' has no protocol 'medium'"):
        _suite(default_protocol="medium")


def test_rules_of_one_task_leave_the_others_alone():
    suite = _suite(task_rules={"demo-ft-v1": TaskRules(target_kl=0.01, decoder_hidden=(4,))})
    assert suite.protocol("slow", "demo-ft-v1").ppo.target_kl == 0.01
    assert suite.protocol("slow", "demo-hill-climb-v2") == SLOW == suite.protocol("slow")
    assert suite.rules("demo-ft-v1").decoder_hidden == (4,)
    assert suite.rules("demo-hill-climb-v2") == TaskRules()
    seeds = _suite(task_rules={"demo-ft-v1": TaskRules(seeds={"slow": (1, 2)})})
    assert seeds.protocol("slow", "demo-ft-v1") == replace(SLOW, seeds=(1, 2))
    assert seeds.protocol("fast", "demo-ft-v1") is FAST
    assert seeds.protocol("slow", "demo-hill-climb-v2") is SLOW is seeds.protocol("slow")


def test_a_part_of_a_suite_does_not_change_when_tasks_join():
    rules = {"demo-hill-climb-v2": TaskRules(target_kl=0.01)}
    small, large = _suite(tasks=("demo-ft-v1",)), _suite(task_rules=rules)
    digest = definition_digest(small)
    assert definition_digest(small.only("demo-ft-v1")) == digest
    assert definition_digest(large.only("demo-ft-v1")) == digest
    assert definition_digest(large) != digest
    hill = _suite().only("demo-hill-climb-v2")
    assert definition_digest(large.only("demo-hill-climb-v2")) != definition_digest(hill)


def test_specialists_must_be_of_a_protocol_of_the_suite():
    rules = SpecialistRules(
        env_steps=100, num_envs=1, rollout_length=10, repeat=1, batch_size=5, lr=1e-3
    )
    assert _suite(specialists={"slow": rules}).specialists["slow"] is rules
    with pytest.raises(ConfigError, match="has specialists of 'slaw', not a protocol"):
        _suite(specialists={"slaw": rules})


def test_measurements_and_seeds_must_be_of_a_protocol_of_the_suite():
    walks = FrictionMeasurement(num_envs=1, seconds=1.0, forward=0.5)
    assert _suite(measurements={"slow": walks}).measurements["slow"] is walks
    with pytest.raises(ConfigError, match="has measurements of 'slaw', not a protocol"):
        _suite(measurements={"slaw": walks})
    with pytest.raises(ConfigError, match="has seeds on demo-ft-v1 of 'slaw', not a protocol"):
        _suite(task_rules={"demo-ft-v1": TaskRules(seeds={"slow": (1,), "slaw": (1, 2)})})


def test_rules_must_be_those_of_a_task_of_the_suite():
    with pytest.raises(ConfigError, match="suite 'demo-v1' has rules for 'x-v1', not a task of it"):
        _suite(task_rules={"x-v1": TaskRules()})


@pytest.mark.parametrize("wrong", ["demo", "Demo-v1", "demo-v", 1])
def test_an_id_that_records_cannot_hold_is_refused(wrong):
    with pytest.raises(ConfigError, match="the id of a suite must be lower-case letters"):
        _suite(id=wrong)


@pytest.mark.parametrize("wrong", ["Quick run", "", "a/b"])
def test_a_protocol_whose_name_records_cannot_hold_is_refused(wrong):
    protocols = {wrong: replace(FAST, name=wrong)}
    with pytest.raises(ConfigError, match="a protocol of the suite 'demo-v1' must be lower-case"):
        _suite(protocols=protocols, default_protocol=wrong)
