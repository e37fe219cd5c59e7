"""What is measured, where, and how it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.bodies.schema import Morphology
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.sim.batch import available_threads
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks.spec import TaskBase
from gmc_bench.tokens.spec import TokenSpec


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One measurement's inputs."""

    task: TaskBase
    bodies: Sequence[Morphology]
    bodies_id: str
    bodies_digest: str
    spec: TokenSpec
    methods: Sequence[MethodSpec]
    """What to measure; training is measured for the first."""
    protocol: Protocol
    num_envs: int
    threads: int | None
    seconds: float
    """Time spent on each figure."""

    @property
    def num_threads(self) -> int:
        """Threads that step and compute."""
        return self.threads or available_threads()

    def describe(self) -> dict[str, Any]:
        """Return what the figures belong to, for JSON."""
        return {
            "task": self.task.id,
            "morphologies": {
                "id": self.bodies_id,
                "digest": self.bodies_digest,
                "bodies": len(self.bodies),
            },
            "num_envs": self.num_envs,
            "threads": self.num_threads,
            "hardware": collect_hardware(self.num_threads).model_dump(),
            "versions": collect_versions(),
        }


def render(figures: dict[str, Any]) -> str:
    """Return the figures as readable lines; ratios carry what they are compared with."""
    notes: dict[str, str] = figures["explained"]
    lines = []
    for name, value in figures.items():
        if name in notes:
            shown = f"{value:.3f}" if name.startswith("ratio_") else f"{value:,.0f}"
            lines.append(f"{name:<36} {shown:>12}   {notes[name]}")
    bodies = figures["setting"]["morphologies"]
    lines.append(f"{machine(figures)}, {bodies['bodies']} bodies of {bodies['id']}")
    return "\n".join(lines)


def machine(figures: dict[str, Any]) -> str:
    """Return what the figures were measured on."""
    setting = figures["setting"]
    return f"on {setting['hardware']['cpu']}, {setting['threads']} threads"
