"""What a study was asked for, and the runs that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from gmc_bench.cli.run import specs_of
from gmc_bench.core.config import load_yaml
from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments.method import load_method
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.studies.catalogue import get_study
from gmc_bench.studies.schema import Arm, Study
from gmc_bench.suites import SUITES
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig

STUDY = "study.yaml"
"""What was asked for, in the folder of a study."""
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Request:
    """A study with everything that decides its runs and measurements."""

    study: Study
    method: str
    """Registered id, or FILE.py:SPEC."""
    others: tuple[str, ...] = ()
    """Further methods, for studies that take several."""
    against: str | None = None
    """The other method of a comparison."""
    suite: str
    protocol: str | None = None
    tasks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    body: str | None = None
    """For studies of one body; `None` takes the one that walks best."""
    friction: FrictionOptions = field(default_factory=FrictionOptions)
    """How friction is measured."""
    words: tuple[str, ...] = ()
    """Further options of `gmc-bench run`."""

    def to_yaml(self) -> str:
        """Return what `read_request` reads back."""
        content = {
            "format": FORMAT,
            "study": self.study.id,
            "method": self.method,
            "against": self.against,
            "suite": self.suite,
            "protocol": self.protocol,
            "tasks": list(self.tasks),
            "seeds": list(self.seeds),
            "body": self.body,
            "words": list(self.words),
            **({"others": list(self.others)} if self.others else {}),
            **({"friction": changed} if (changed := self.friction.to_dict()) else {}),
        }
        return yaml.safe_dump(content, sort_keys=False)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Variants: those of the study, or one for each method that is asked for."""
        if not self.study.many_methods:
            return self.study.arms
        beside = [arm.method for arm in self.study.arms if arm.method]
        found: dict[str, Arm] = {}
        for name in (self.method, *self.others, *beside):
            method = load_method(name)
            scope = "one per robot" if method.capabilities.per_body else "shared"
            arm = Arm(name=method.id, label=method.id, method=name, parts={"Controller": scope})
            found.setdefault(method.id, arm)
        return tuple(found.values())

    def method_of(self, arm: Arm) -> str:
        """Return the method of a variant."""
        if arm.method is None:
            return self.method
        return self.against or arm.method


def read_request(path: Path) -> Request:
    """Read what a study was asked for.

    Raises:
        ConfigError: the file is missing or was changed into something else.
    """
    content = load_yaml(path)
    fields = {"format", "study", "method", "against", "suite", "protocol", "tasks", "seeds"}
    if (
        set(content) - {"others", "friction"} != fields | {"body", "words"}
        or content["format"] != FORMAT
    ):
        raise ConfigError(
            f"{path} is not what a study of this version of gmc-bench was asked for; restore it"
        )
    del content["format"]
    try:
        return Request(
            **{
                **content,
                "study": get_study(content["study"]),
                "tasks": tuple(content["tasks"]),
                "seeds": tuple(int(seed) for seed in content["seeds"]),
                "words": tuple(content["words"]),
                "others": tuple(content.get("others", ())),
                "friction": FrictionOptions.from_dict(content.get("friction", {})),
            }
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path} holds a value that does not fit ({error}); restore it") from None


@dataclass(frozen=True)
class PlannedArm:
    """One run of a study."""

    arm: Arm
    task: str
    seed: int
    name: str
    """Of the run, inside the study."""
    config: RunConfig


def plan_study(request: Request, out: Path | None = None) -> tuple[Sweep, list[PlannedArm]]:
    """Return the runs of a study, task by task, seed by seed.

    Raises:
        GmcBenchError: a variant does not fit the method, or an option is wrong.
    """
    study = request.study
    suite = SUITES.load(request.suite)
    protocol = suite.protocol(request.protocol)
    tasks = [suite.task(name) for name in request.tasks or study.tasks] or list(suite.tasks)
    seeds = request.seeds or protocol.seeds
    specs: dict[tuple[str, int, str], ExperimentSpec] = {}
    for arm in request.arms:
        for seed in seeds:
            found, _ = specs_of(
                [
                    "--method", request.method_of(arm), "--suite", request.suite,
                    "--task", *tasks, "--seed", str(seed), *_protocol(request),
                    *_preset(request, arm, protocol.preset),
                    *(f"--model.{name.replace('_', '-')}={value}"
                      for name, value in arm.settings.items()),
                    *(f"--tokens.{name}={value}" for name, value in arm.token_changes.items()),
                    *request.words,
                ],
            )  # fmt: skip
            specs |= {(str(spec.task), seed, arm.name): spec for spec in found}
    arms = {arm.name: arm for arm in request.arms}
    chosen = {
        _name(arms[name], task, seed): specs[task, seed, name]
        for task in dict.fromkeys(tasks)
        for seed in seeds
        for name in arms
    }
    sweep = Sweep(chosen, out=out, files={STUDY: request.to_yaml().encode()})
    return sweep, match(request, sweep)


def _protocol(request: Request) -> Sequence[str]:
    return ("--protocol", request.protocol) if request.protocol else ()


def _preset(request: Request, arm: Arm, preset: str) -> Sequence[str]:
    if not arm.preset_suffix:
        return ()
    wanted = f"{preset}{arm.preset_suffix}"
    method = load_method(request.method_of(arm))
    if wanted not in method.presets:
        raise ConfigError(
            f"the study {request.study.id!r} needs the preset {wanted!r} of {method.id!r}, which "
            f"it does not have; choose a --protocol whose preset is one of "
            f"{', '.join(sorted(method.presets))} without its last part"
        )
    return ("--preset", wanted)


def _name(arm: Arm, task: str, seed: int) -> str:
    return f"{arm.name}_{short_name(task)}_seed{seed}"


def match(request: Request, sweep: Sweep) -> list[PlannedArm]:
    """Return the runs of a sweep with the variants they belong to.

    Raises:
        ConfigError: a run belongs to no variant of the study.
    """
    arms = request.arms
    found: list[PlannedArm] = []
    for name, config in sweep.runs.items():
        for arm in arms:
            if name == _name(arm, config.task, config.seed):
                found.append(PlannedArm(arm, config.task, config.seed, name, config))
                break
        else:
            raise ConfigError(
                f"the plan has a run {name!r}, which is no variant of the study "
                f"{request.study.id!r}; restore the plan"
            )
    return found
