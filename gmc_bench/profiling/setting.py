"""Inputs of a measurement of `gmc-bench profile`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import Table
from gmc_bench.experiments.events import Listener, Progress
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.sim.batch import available_threads
from gmc_bench.suites import Suite
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.spec import TokenSpec


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One measurement's inputs."""

    suite: Suite
    task: Task
    bodies: Sequence[Morphology]
    bodies_id: str
    bodies_digest: str
    spec: TokenSpec
    methods: Sequence[MethodSpec]
    """What to measure; training is measured for the first."""
    presets: Sequence[str] = ()
    """Of the only method, to compare with each other; by default methods are compared, in the
    protocol's preset."""
    protocol: Protocol
    num_envs: int
    threads: int | None
    seconds: float
    """Time spent on each figure."""
    listener: Listener = lambda _: None
    """Told of progress."""

    @property
    def num_threads(self) -> int:
        """Threads that step and compute."""
        return self.threads or available_threads()

    def each_method(self) -> Iterator[MethodSpec]:
        """Yield the methods, and tell how many are done.

        Raises:
            ConfigError: two of them have the same id, by which their figures are told apart.
        """
        ids = [method.id for method in self.methods]
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise ConfigError(
                f"methods to be measured have ids of their own, but {twice!r} was given twice; "
                f"leave one out, or give its specification another id"
            )
        for done, method in enumerate(self.methods):
            self.listener(Progress("profile", done, len(self.methods), "method"))
            yield method
        self.listener(Progress("profile", len(self.methods), len(self.methods), "method"))

    def preset(self, method: MethodSpec) -> str | None:
        """Return the protocol's preset of a method, `None` where it has none of this name."""
        return self.protocol.preset if self.protocol.preset in method.presets else None

    def require_limbs(self, measure: str) -> None:
        """Check that a measure, which draws random trees of limbs, says something of the suite.

        Raises:
            ConfigError: the suite's bodies have joint drives.
        """
        if self.spec.parts != "limbs":
            raise ConfigError(
                f"{measure!r} measures networks on random trees of limbs, which bodies of the "
                f"suite {self.suite.id!r} are not made of; give another suite, or measure 'train' "
                f"or 'methods'"
            )

    def report(
        self,
        name: str,
        tables: Sequence[Table],
        figures: dict[str, Any],
        *,
        drawn: str | None = None,
    ) -> Report:
        """Return a report; `setting` among its figures says what they belong to.

        Args:
            name: of the measure.
            tables: of its figures.
            figures: the same and more; those in `setting` are added to or replace its own.
            drawn: what was measured instead of the bodies, in no environment; default the bodies.
        """
        machine = describe_machine(self.num_threads)
        setting: dict[str, Any] = {
            "threads": self.num_threads,
            "hardware": machine["hardware"],
            "versions": machine["versions"],
        }
        if drawn is None:
            morphologies = {
                "id": self.bodies_id,
                "digest": self.bodies_digest,
                "bodies": len(self.bodies),
            }
            simulated = {"task": self.task.id, "morphologies": morphologies}
            setting = simulated | {"num_envs": self.num_envs} | setting
        measured = drawn or f"{len(self.bodies)} bodies of {self.bodies_id}"
        return Report(
            name=f"profile {name}",
            claim=f"{measured}, {self.num_threads} thread(s).",
            tables=tables,
            figures={**figures, "setting": setting | figures.get("setting", {})},
            machine=machine,
        )
