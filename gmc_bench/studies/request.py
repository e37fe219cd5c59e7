"""Request: a study, what it is asked about, and the experiments that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import yaml

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import coerce, load_yaml, sealed_yaml
from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments.grid import listed
from gmc_bench.experiments.method import full_name, load_method, method_labels
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.studies.catalogue import get_study
from gmc_bench.studies.generalisation import COUNT, METHOD
from gmc_bench.studies.schema import Arm, Study
from gmc_bench.suites import SUITES
from gmc_bench.suites.schema import short_name

STUDY = "study.yaml"
"""What was asked for, in the folder of a study."""
FORMAT = 2
OPTIONS = {
    "against": "gait",
    "body": "gait",
    "heading": "friction",
    "friction_rule": "friction",
    "robot_source": "friction",
    "steps": "bodies",
    "counts": "bodies",
    "budgets": "budget",
}
"""Options, and the value of `Study.measure` that each is for."""
EQUAL, PER_BODY = "equal", "per-body"
"""Budgets of runs with different numbers of bodies: the same env steps, or the same per body."""
_BODIES_OF_PROTOCOL = 100
"""With `PER_BODY`, a run of so many bodies trains the protocol's env steps, and others in
proportion."""
MAX_BUDGET = 10_000
"""Largest multiple of the protocol's env steps that is a budget; the smallest is its reciprocal."""
_EQUAL_STEPS = ("bodies", "budget")
"""Measurements of studies whose runs differ in env steps or bodies alone."""
_VARIED = ("tokens.order", "tokens.attributes", "tokens.tree")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A study with everything that decides its measurements; its runs are in the sweep."""

    study: Study
    methods: tuple[str, ...]
    """Registered ids, FILE.py:SPEC or MODULE:SPEC; one, unless the study takes several."""
    against: str | None = None
    """The other method of a comparison; `None` is the study's."""
    body: str | None = None
    """For studies of one body; `None` takes the one that walks best."""
    friction: FrictionOptions = field(default_factory=FrictionOptions)
    """How friction is measured."""
    steps: str = EQUAL
    """Of studies of numbers of bodies: `EQUAL` env steps, or as many `PER_BODY`."""
    counts: tuple[int, ...] = ()
    """Numbers of train bodies; by default the study's."""
    budgets: tuple[Fraction, ...] = ()
    """Multiples of the protocol's env steps; by default the study's."""

    @classmethod
    def make(cls, study: str, methods: Sequence[str] = (), **options: Any) -> Self:
        """Return a request, checked.

        Args:
            study: id.
            methods: by default the study's first, or recmorph.
            **options: `against` and `body` of `gait`; `heading`, `friction_rule` and
                `robot_source` of `friction`, see `FrictionOptions`; `steps` and `counts` of
                `bodies`; `budgets` of `budget`, numbers or text like `1/3`; `None` is the default.

        Raises:
            ConfigError: there is no such study, or a method or an option is not for it.
            UnknownNameError: a method is not registered.
        """
        found = get_study(study)
        methods = methods or found.asked or [*found.methods, "recmorph"][:1]
        for method in methods:
            loaded = load_method(method)
            found.require_method(loaded.id)
            own = loaded.capabilities.per_body or loaded.env_steps_per_body is not None
            if own and found.measure in _EQUAL_STEPS:
                raise ConfigError(
                    f"the study {study!r} compares methods at equal env steps, but {loaded.id!r} "
                    f"has a budget of its own for each body; choose other methods"
                )
        if len(methods) > 1 and not found.many_methods:
            raise ConfigError(
                f"the study {study!r} is about one method, got --method {' '.join(methods)}; give "
                f"one, or run it once for each"
            )
        # Variants are named after them, also where a study is continued from another folder.
        methods = tuple(map(full_name, methods))
        given = {name: value for name, value in options.items() if value is not None}
        against = full_name(given["against"]) if "against" in given else None
        for name in given:
            if found.measure != OPTIONS[name]:
                raise ConfigError(
                    f"--{name.replace('_', '-')} is for the study {OPTIONS[name]!r}, got it for "
                    f"{study!r}"
                )
        if found.measure == OPTIONS["against"]:
            usual = next(arm.method for arm in found.arms if arm.method)
            if (against or full_name(usual)) in methods:
                raise ConfigError(
                    f"the study {study!r} compares two methods, got "
                    f"{given.get('against', usual)!r} against itself; give another one with "
                    f"--against"
                )
        if given.get("steps", EQUAL) not in (EQUAL, PER_BODY):
            raise ConfigError(f"--steps is {EQUAL} or {PER_BODY}, got {given['steps']!r}")
        names = {"heading": "heading", "rule": "friction_rule", "robots": "robot_source"}
        friction: Any = {name: given[key] for name, key in names.items() if key in given}
        return cls(
            study=found,
            methods=methods,
            against=against,
            body=given.get("body"),
            friction=FrictionOptions(**friction),
            steps=given.get("steps", EQUAL),
            counts=_counts(given.get("counts")),
            budgets=_fractions(given["budgets"]) if "budgets" in given else (),
        )

    def to_yaml(self) -> str:
        """Return what `read_request` reads back."""
        content = {
            "format": FORMAT,
            "study": self.study.id,
            "methods": list(self.methods),
            "against": self.against,
            "body": self.body,
            "friction": self.friction.to_dict(),
        }
        if self.study.body_counts:
            content |= {"steps": self.steps, "counts": list(self.counts)}
        if self.budgets:
            content["budgets"] = list(map(str, self.budgets))
        return sealed_yaml(yaml.safe_dump(content, sort_keys=False))

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Variants: those of the study, or one for each method that is asked for."""
        if not self.study.many_methods:
            return self.study.arms
        beside = [arm.method for arm in self.study.arms if arm.method]
        methods = {name: load_method(name) for name in map(full_name, (*self.methods, *beside))}
        labels = method_labels({name: method.id for name, method in methods.items()})
        found: list[Arm] = []
        for name, method in methods.items():
            scope = "one per robot" if method.capabilities.per_body else "shared"
            label = labels[name]
            arm = Arm(name=label, label=label, method=name, parts={"Controller": scope})
            found += self._with_bodies(arm) or self._at_budgets(arm)
        return tuple(found)

    def _at_budgets(self, arm: Arm) -> list[Arm]:
        """Return the variants of a method: one for each budget."""
        budgets = self.budgets or self.study.budgets
        if len(budgets) == 1:
            return [arm]
        return [
            replace(
                arm,
                name=f"{arm.name}-x{str(budget).replace('/', '-')}",
                label=f"{arm.label}, {budget} x",
                parts={"Method": arm.label, "Budget": f"{budget} x"},
                budget=budget,
            )
            for budget in budgets
        ]

    def _with_bodies(self, arm: Arm) -> list[Arm]:
        """Return the variants of a method: one for each number of train bodies of the study."""
        return [
            replace(
                arm,
                name=f"{arm.name}-{count}" + ("-per-body" if self.steps == PER_BODY else ""),
                label=f"{arm.label}, {count:,} bodies",
                parts={METHOD: arm.label, COUNT: f"{count:,}"},
                bodies=count,
                budget=Fraction(count, _BODIES_OF_PROTOCOL)
                if self.steps == PER_BODY
                else Fraction(1),
                # Scoring a thousand train bodies with sampled actions, too, would take as long as
                # training.
                settings={"evaluation.modes": ["deterministic"]},
            )
            for count in self.counts or self.study.body_counts
        ]

    def specs(
        self, base: ExperimentSpec, tasks: Sequence[str] = (), seeds: Sequence[int] = ()
    ) -> dict[str, ExperimentSpec]:
        """Return the experiments by name: task by task, seed by seed, arm by arm.

        Args:
            base: what they have in common; its method and task do not count.
            tasks: by default the study's, or all of the suite.
            seeds: by default the protocol's.

        Raises:
            ConfigError: the study decides a field or a setting itself.
            GmcBenchError: the suite has no such task or protocol, or a variant does not fit the
                method.
        """
        _require_undecided(base, self.arms)
        suite = SUITES.load(base.suite)
        protocol = suite.protocol(base.protocol)
        full = [suite.task(name) for name in tasks or self.study.tasks] or list(suite.tasks)
        return {
            variant_run_name(arm, task, seed): self.variant(base, arm).replace(
                task=task, seed=seed, bodies=self._bodies(base, arm, seed)
            )
            for task in dict.fromkeys(full)
            for seed in dict.fromkeys(seeds or protocol.seeds)
            for arm in self.arms
        }

    def _bodies(self, base: ExperimentSpec, arm: Arm, seed: int) -> str | None:
        """Return the bodies of a run: other ones with each seed, as long as the set has more."""
        name = base.bodies or self.study.body_set
        if arm.bodies is None or name is None:
            return base.bodies
        bodies = load_morphologies(name)
        if repeated := bodies.seen_in_train:
            # To runs that do not train on it, such a body would be an unseen one.
            raise ConfigError(
                f"the study {self.study.id!r} scores all runs on the same unseen bodies, but "
                f"{len(repeated)} test bodies of {name} are train bodies, too; choose another set "
                f"with --morphologies"
            )
        total = len(bodies.split("train"))
        if arm.bodies > total:
            raise ConfigError(
                f"the study {self.study.id!r} trains on {arm.bodies:,} bodies, but {name} has "
                f"{total:,} train bodies; choose another set with --morphologies, or fewer with "
                f"--counts"
            )
        start = 1 + (seed - 1) % (total // arm.bodies) * arm.bodies
        return f"{name}:{arm.bodies}" + (f"@{start}" if start > 1 else "")

    def variant(self, base: ExperimentSpec, arm: Arm) -> ExperimentSpec:
        """Return the experiment of a variant, on the bodies of `base`.

        Args:
            base: what variants have in common; its method does not count.
            arm: the variant.

        Raises:
            ConfigError: the variant is a preset that the method does not have.
        """
        protocol = SUITES.load(base.suite).protocol(base.protocol)
        name = self.methods[0] if arm.method is None else self.against or arm.method
        settings = {**base.settings, **arm.settings}
        if arm.budget != 1:
            steps = settings.get("env_steps", protocol.env_steps)
            settings["env_steps"] = round(coerce(steps, int, "env_steps") * arm.budget)
        spec = base.replace(method=name, settings=settings)
        if not arm.preset_suffix:
            return spec
        method, wanted = load_method(name), f"{protocol.preset}{arm.preset_suffix}"
        if wanted not in method.presets:
            raise ConfigError(
                f"the study {self.study.id!r} needs the preset {wanted!r} of {method.id!r}, which "
                f"it does not have; choose a --protocol whose preset is one of "
                f"{', '.join(sorted(method.presets))} without its last part"
            )
        return spec.replace(preset=wanted)


def _counts(counts: Any) -> tuple[int, ...]:
    """Return different numbers of bodies.

    Raises:
        ConfigError: one is no integer or below 1, or all are the same: no line has one point.
    """
    found: tuple[int, ...] = coerce(listed(counts), tuple[int, ...], "counts")
    if found and min(found) < 1:
        raise ConfigError(f"'counts' must be numbers of bodies, at least 1, got {min(found)}")
    different = tuple(dict.fromkeys(found))
    if len(different) == 1:
        raise ConfigError(
            f"--counts takes at least two different numbers of bodies, such as 10 30 100, got "
            f"{' '.join(map(str, found))!r}"
        )
    return different


def _fractions(budgets: Any) -> tuple[Fraction, ...]:
    """Return multiples of a number of steps, the smallest first.

    Raises:
        ConfigError: they are not several positive numbers, or one is beyond `MAX_BUDGET`.
    """
    budgets = listed(budgets)
    try:
        found = sorted({_fraction(str(budget)) for budget in budgets})
    except (ValueError, ArithmeticError):
        found = []
    if len(found) < 2:
        shown = " ".join(map(str, budgets))
        raise ConfigError(
            f"--budgets takes at least two different multiples of the protocol's env steps, from "
            f"1/{MAX_BUDGET} to {MAX_BUDGET}, such as 1/3 1 10, got {shown!r}"
        )
    return tuple(found)


def _fraction(text: str) -> Fraction:
    """Return a multiple; `ValueError` or `ArithmeticError` where it is none."""
    # Not at once as a fraction: that of 1e999999999 has a billion digits.
    if "/" not in text and not 1 / Decimal(MAX_BUDGET) <= Decimal(text) <= MAX_BUDGET:
        raise ValueError(text)
    found = Fraction(text)
    if not Fraction(1, MAX_BUDGET) <= found <= MAX_BUDGET:
        raise ValueError(text)
    return found


def _require_undecided(base: ExperimentSpec, arms: Sequence[Arm]) -> None:
    """Raise if settings would override what the study varies, or what it keeps the same."""
    varied = {*_VARIED, *(name for arm in arms for name in arm.settings)}
    decided = [name for name in ("seed", "preset") if getattr(base, name) is not None]
    decided += [name for name in base.settings if name in varied or name.startswith("model.")]
    for name in decided:
        raise ConfigError(
            f"a study decides '--{name}' itself, so that its variants differ in nothing else; "
            f"leave it out" + ("; use --seeds" if name == "seed" else "")
        )


def variant_run_name(arm: Arm, task: str, seed: int) -> str:
    """Return the name of a run inside a study."""
    return f"{arm.name}_{short_name(task)}_seed{seed}"


def read_request(path: Path) -> Request:
    """Read what a study was asked for.

    Raises:
        ConfigError: the file is missing or was changed into something else.
    """
    content: Mapping[str, Any] = load_yaml(path)
    try:
        if content["format"] == 1:  # of before version 2, beside what is in the list of runs
            methods = [content["method"], *content.get("others", ())]
        elif content["format"] == FORMAT:
            methods = content["methods"]
        else:
            raise ValueError(f"format {content['format']!r}")
        return Request(
            study=get_study(content["study"]),
            methods=tuple(methods),
            against=content["against"],
            body=content["body"],
            friction=FrictionOptions.from_dict(content.get("friction", {})),
            steps=content.get("steps", EQUAL),
            counts=tuple(content.get("counts", ())),
            budgets=_fractions(content["budgets"]) if "budgets" in content else (),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is not what a study of this version of gmc-bench was asked for ({error}); "
            f"restore it"
        ) from None
