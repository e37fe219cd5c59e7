"""Speed of methods, or of presets of one, in training: iterations in turns with a reference's.

Only turns that lie side by side are comparable on a machine that also does other things, so every
method is timed beside the reference, and what counts is the ratio of the two in the same round.
"""

from dataclasses import replace
from statistics import median
from typing import Any

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import Table
from gmc_bench.experiments.events import Progress
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.profiling.report import Report
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.timing import take_turns, timed
from gmc_bench.profiling.training import trainer_of
from gmc_bench.suites.method_rules import with_method_training
from gmc_bench.training.trainer import Trainer

MIN_ROUNDS = 15
"""Rounds of every pair, at least: an interval of their median at 99.9 % needs eleven."""
_LONG = 10**9
"""Env steps of a schedule that no measurement comes to the end of."""


class _Turns:
    """Iterations of a trainer, in turns with those of another; the first one compiles."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self._seconds: list[float] = []
        self._acting: list[float] = []

    def take(self, _: int) -> tuple[float, float]:
        """Train for one iteration; returns seconds and env steps."""
        before = self.trainer.timers.policy
        seconds = timed(self.trainer.iterate)[1]
        self._seconds.append(seconds)
        self._acting.append(self.trainer.timers.policy - before)
        return seconds, self.trainer.protocol.steps_per_iteration

    @property
    def seconds(self) -> list[float]:
        """Seconds of every iteration that counts."""
        return self._seconds[1:]

    @property
    def acting(self) -> list[float]:
        """Seconds of choosing actions in each of them."""
        return self._acting[1:]


def profile_methods(setting: Setting) -> Report:
    """Let each method train in turns with the first one, on the set's bodies under its protocol.

    Where presets are given, these of one method do likewise. All updates of an iteration are made:
    what the KL stop skips would depend on what was learned.

    Returns:
        `reference`, and of each method its version, preset, parameters, and of every round the
        seconds of the whole iteration and of choosing actions in it, beside the reference's of the
        same round.

    Raises:
        ConfigError: there are not two methods or presets, presets are of several methods or not the
            method's, or a method has a policy for each body, which trains by other rules.
    """
    reference, *others = _variants(setting)
    steps = setting.protocol.steps_per_iteration
    found = []
    for done, variant in enumerate(others):
        setting.listener(Progress("profile", done, len(others), "comparison"))
        ours, beside = (_Turns(_trainer(*item)) for item in (variant, reference))
        sides = {"ours": ours.take, "reference": beside.take}
        take_turns(sides, setting.seconds, min_rounds=MIN_ROUNDS)
        found.append(
            {
                **_described(*variant, ours),
                "seconds": ours.seconds,
                "acting_seconds": ours.acting,
                "reference_seconds": beside.seconds,
                "reference_acting_seconds": beside.acting,
            }
        )
    setting.listener(Progress("profile", len(others), len(others), "comparison"))
    figures = {
        "measurement": "methods",
        "suite": setting.suite.id,
        "task": setting.task.id,
        "protocol": setting.protocol.name,
        "steps_per_iteration": steps,
        "reference": _described(*reference, beside),
        "methods": found,
    }
    report = setting.report("methods", [], figures)
    figures = report.figures | {
        "git_commit": report.machine["commit"],
        "git_dirty": report.machine["dirty"],
    }
    label = "preset" if setting.presets else "method"
    return replace(report, tables=[_table(figures, label)], figures=figures)


def _variants(setting: Setting) -> list[tuple[Setting, MethodSpec]]:
    """Return what is compared, the reference first, each with the setting that has its preset."""
    method, *others = setting.methods
    for item in setting.methods:
        if item.capabilities.per_body:
            raise ConfigError(
                f"{item.id} trains a policy for each body by rules of its own, so its speed cannot "
                f"be compared; leave it out of --method"
            )
    if not setting.presets:
        if not others:
            raise ConfigError(
                f"speeds are compared, but only {method.id} was given; add a second --method or "
                f"several presets by --preset"
            )
        return [(setting, item) for item in setting.methods]
    if others:
        raise ConfigError("presets are compared of one method; give one --method")
    if len(set(setting.presets)) < max(2, len(setting.presets)):
        raise ConfigError(
            f"different presets are compared, got {' '.join(setting.presets)}; give --preset two "
            f"or more of {', '.join(method.presets)}"
        )
    for name in setting.presets:
        method.make_config(name)  # it exists
    protocols = (replace(setting.protocol, preset=name) for name in setting.presets)
    return [(replace(setting, protocol=protocol), method) for protocol in protocols]


def _trainer(setting: Setting, method: MethodSpec) -> Trainer:
    protocol = with_method_training(setting.protocol, method, setting.task.id)
    every_update = replace(protocol.ppo, target_kl=None)
    return trainer_of(setting, method, replace(protocol, env_steps=_LONG, ppo=every_update))


def _described(setting: Setting, method: MethodSpec, turns: _Turns) -> dict[str, Any]:
    return {
        "method": method.id,
        "method_version": method.version,
        "preset": setting.preset(method) or "default",
        "parameters": turns.trainer.policy.model.num_parameters(),
    }


def _table(figures: dict[str, Any], label: str) -> Table:
    """Return a row per method or preset, in env steps per second of one machine and as ratios."""
    steps, reference = figures["steps_per_iteration"], figures["reference"]
    total = [value for item in figures["methods"] for value in item["reference_seconds"]]
    acting = [value for item in figures["methods"] for value in item["reference_acting_seconds"]]
    times = steps / median(total), steps / median(acting)
    rows = [_row(reference, label, *times, 1.0, 1.0)]
    for item in figures["methods"]:
        ratios = [
            median(a / b for a, b in zip(item[f"reference_{name}"], item[name], strict=True))
            for name in ("seconds", "acting_seconds")
        ]
        rows.append(
            _row(
                item,
                label,
                steps / median(item["seconds"]),
                steps / median(item["acting_seconds"]),
                *ratios,
            )
        )
    beside = f"x {reference[label]}"
    return Table(
        (label, "parameters", "training, steps/s", beside, "acting, steps/s", beside), rows
    )


def _row(
    item: dict[str, Any],
    label: str,
    training: float,
    acting: float,
    ratio: float,
    acting_ratio: float,
) -> list[str]:
    return [
        item[label],
        f"{item['parameters']:,}",
        *(f"{training:,.0f}", f"{ratio:.2f}"),
        *(f"{acting:,.0f}", f"{acting_ratio:.2f}"),
    ]
