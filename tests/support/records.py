"""A valid run record for tests, with any field changed."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from gmc_bench.core.config import config_digest, definition_digest
from gmc_bench.records.schema import REQUIRED_VERSIONS, BodyReturns, Mode, RunRecord, Split
from gmc_bench.records.store import StoredRecord, record_digest
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from gmc_bench.training.run_config import RunConfig

Returns = Mapping[str, Sequence[float]]
"""Body name to the returns of its episodes."""


def digest_of(text: str) -> str:
    """Return a stand-in digest, 64 hex digits, that depends on a text only."""
    return hashlib.sha256(text.encode()).hexdigest()


def make_returns(
    split: Split,
    returns: Returns,
    mode: Mode = "deterministic",
    seen: Collection[str] = (),
) -> tuple[BodyReturns, ...]:
    """Return evaluation results of one split and mode.

    Args:
        split: `train` or `test`.
        returns: body name to episode returns; the name also decides the body's digest.
        mode: how actions were chosen.
        seen: names of test bodies that are train bodies.

    Returns:
        One entry per body, in the order given.
    """
    return tuple(
        BodyReturns.model_validate(
            {
                "split": split,
                "mode": mode,
                "body": body,
                "body_digest": digest_of(body),
                "seen_in_train": split == "train" or body in seen,
                "episodes": [
                    {"episode_return": float(value), "length": 1000, "ended": "time_limit"}
                    for value in values
                ],
            }
        )
        for body, values in returns.items()
    )


def record_of_run(config: RunConfig) -> RunRecord:
    """Return a record that is of the run with these settings; all else is that of `make_record`."""
    return make_record(config=config.identity(), seed=config.seed)


def make_record(**changes: Any) -> RunRecord:
    """Return a complete, official record of two train and three test bodies.

    The test body `b` is also a train body. Deterministic scores: train 150, test 30 (zero-shot)
    or 80 (with `b`).

    Args:
        **changes: fields to replace. `config_digest` follows its field, `config`, and of
            `training_return` and the end of `learning_curve` one the other; contradictions between
            the rest can be made on purpose, and between these two where both are given.

    Returns:
        The record.

    Raises:
        pydantic.ValidationError: the changes make an invalid record.
    """
    config = changes.get("config", {"training": {"gamma": 0.99, "num_envs": 64}})
    fields: dict[str, Any] = {
        "status": "complete",
        "created": "2025-01-31T23:59:59Z",
        "method": "demo",
        "method_version": 1,
        "preset": "lite",
        "controller": "shared",
        "parameters": 1000,
        "suite": "unimal-v1",
        "suite_digest": digest_of("suite"),
        "task": "unimal-ft-v1",
        "task_digest": _task_digest(changes.get("task", "unimal-ft-v1")),
        "protocol": "lite",
        "protocol_digest": config_digest(SUITES.get("unimal-v1").protocol("lite")),
        "morphologies": {
            "id": "demo-set-v1",
            "digest": digest_of("set"),
            "source": "made for tests",
            "licence": "MIT",
            "num_train": 2,
            "num_test": 3,
        },
        "seed": 0,
        "env_steps": 2000,
        "env_steps_planned": 2000,
        "config": config,
        "config_digest": config_digest(config),
        "returns": make_returns("train", {"a": [50.0, 150.0], "b": [200.0]})
        + make_returns("test", {"b": [180.0], "c": [10.0, 30.0], "d": [40.0]}, seen={"b"}),
        "learning_curve": [
            {"env_steps": 1000, "mean_return": None, "mean_length": None, "episodes": 1},
            {"env_steps": 2000, "mean_return": 90.0, "mean_length": 400.0, "episodes": 5},
        ],
        "training_return": 90.0,
        "diverged_episodes": 0,
        "wall_clock_s": {
            "total": 10.0,
            "simulation": 4.0,
            "policy": 2.0,
            "update": 3.0,
            "other": 1.0,
        },
        "env_steps_per_s": 200.0,
        "hardware": {
            "cpu": "Test CPU",
            "cores": 2,
            "threads": 2,
            "memory_gib": 8.0,
            "gpu": None,
            "instructions": "avx2",
            "platform": "Linux x86_64",
        },
        "versions": dict.fromkeys(REQUIRED_VERSIONS, "1.2.3"),
        "weights_digest": digest_of("weights"),
        "git_commit": "0" * 40,
        "git_dirty": False,
        "official": True,
        "unofficial_reasons": (),
    }
    if "training_return" in changes:
        fields["learning_curve"][-1]["mean_return"] = changes["training_return"]
    elif changes.get("learning_curve"):
        fields["training_return"] = dict(changes["learning_curve"][-1])["mean_return"]
    return RunRecord.model_validate({**fields, **changes})


@cache
def _task_digest(task: str) -> str:
    """Return the digest of an installed task, or a stand-in for that of another one."""
    return definition_digest(TASKS.get(task)) if task in TASKS.names() else digest_of("task")


UNTRAINED: dict[str, Any] = {
    "untrained": True,
    "env_steps": 0,
    "env_steps_planned": 0,
    "learning_curve": (),
    "training_return": None,
    "wall_clock_s": dict.fromkeys(("total", "simulation", "policy", "update", "other"), 0.0),
    "env_steps_per_s": 0.0,
    "config": {"untrained": True},
}
"""Changes of `make_record` for a record of initial weights."""


def make_friction(robots: int = 2) -> list[dict[str, Any]]:
    """Return what robots do on two frictions: 1, 2, ... on `low`, ten times that on `high`.

    It was measured as the suite of quadrupeds does under `smoke`.

    The last robot has finished no episode and so has no fall rate.
    """
    rule = SUITES.get("quadruped-friction-v3").measurements["smoke"]
    return [
        {
            "robot": f"robot-{number}", "robot_digest": digest_of(f"robot-{number}"),
            "robot_origin": "built-in", "friction": friction,
            "static": FRICTION_PAIRS[friction].static, "dynamic": FRICTION_PAIRS[friction].dynamic,
            "rule": "two-state", "cone": "elliptic", "impratio": 10.0, "sim_dt": 0.005,
            "command": [rule.forward, 0.0, 0.0], "heading": "held", "seconds": rule.seconds,
            "num_envs": rule.num_envs,
            "restarts": {
                "velocity_rmse": number * scale, "progress": 2.0 * number * scale,
                "tilt_rms": 3.0, "fall_rate": None if number == robots else 50.0,
            },
            "single_life": {"velocity_rmse": 1.0},
        }
        for friction, scale in (("low", 1.0), ("high", 10.0))
        for number in range(1, robots + 1)
    ]  # fmt: skip


def make_stored(record: RunRecord, path: str = "results/record.json") -> StoredRecord:
    """Return a record as if it had been read from a file that was never changed."""
    return StoredRecord(path, record, record_digest(record))


AFTER_TUNING: dict[str, Any] = {
    "tuning": {
        "settings": {"ppo.lr": 0.002}, "morphologies": None, "morphologies_digest": None,
        "env_steps": None, "trials": (),
    },
    "config": {"ppo": {"lr": 0.002}},
}  # fmt: skip
"""Changes of `make_record` for a record of a tuned method, whose trials are not known."""
