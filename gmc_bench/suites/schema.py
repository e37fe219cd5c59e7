"""A suite: tasks x bodies x protocols. Tasks and body sets are named by id, not imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.names import NAME, VERSIONED_NAME, require_name
from gmc_bench.suites.measured import FrictionMeasurement
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.specialist import SpecialistRules

MOST_SLOTS = 10_000
"""Token slots that a suite may ask for; attention over more would not fit into memory."""


@dataclass(frozen=True, kw_only=True)
class TaskRules:
    """What a suite does otherwise on one of its tasks, for all methods alike."""

    target_kl: float | None = None
    """Threshold of the KL stop in place of the protocol's; `None` keeps that."""
    decoder_hidden: tuple[int, ...] = ()
    """Widths of hidden decoder layers, for methods whose preset has none of its own."""
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Seeds of a complete entry by name of the protocol, in place of the protocol's."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite. A released suite never changes its numbers: a change is a new version.

    Raises:
        ConfigError: no task or body set is listed, the number of slots is out of range, a
            protocol has another name, or a task or protocol is named that the suite does not have.
    """

    id: str
    """Lower-case id with a version, e.g. `unimal-v1`."""
    title: str
    description: str
    tasks: tuple[str, ...]
    """Task ids, in the order they are run."""
    default_morphologies: tuple[str, ...]
    """Body sets in order of preference: the first that is available is used."""
    min_token_slots: int
    """Token slots per body, at least; more where a body needs them."""
    protocols: Mapping[str, Protocol]
    default_protocol: str
    task_rules: Mapping[str, TaskRules] = field(default_factory=dict)
    """By full task id; tasks that are not in it follow the protocol alone."""
    specialists: Mapping[str, SpecialistRules] = field(default_factory=dict)
    """How one policy per body is trained, by name of the protocol; without an entry, bodies share
    what the protocol has for one policy of all."""
    measurements: Mapping[str, FrictionMeasurement] = field(default_factory=dict)
    """What is measured on finished policies beside their returns, by name of the protocol."""
    marks_loops: bool = False
    """Whether policies are told which limbs are part of a closed loop."""

    def __post_init__(self) -> None:
        require_name(self.id, VERSIONED_NAME, "the id of a suite")
        for name in ("tasks", "default_morphologies"):
            ids = getattr(self, name)
            listed = isinstance(ids, (tuple, list)) and all(isinstance(item, str) for item in ids)
            if not listed or not ids:
                raise ConfigError(
                    f"{name!r} of the suite {self.id!r} must be a tuple of ids, at least one, got "
                    f"{shown(ids)}"
                )
        slots = self.min_token_slots
        if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
            raise ConfigError(
                f"'min_token_slots' of the suite {self.id!r} must be an integer from 1 to "
                f"{MOST_SLOTS:,}, got {shown(slots)}"
            )
        for name, protocol in self.protocols.items():
            require_name(name, NAME, f"the name of a protocol of the suite {self.id!r}")
            if protocol.name != name:
                raise ConfigError(
                    f"suite {self.id!r} lists the protocol {protocol.name!r} as {name!r}"
                )
        if self.default_protocol not in self.protocols:
            raise ConfigError(f"suite {self.id!r} has no protocol {self.default_protocol!r}")
        for task in self.task_rules:
            if task not in self.tasks:
                raise ConfigError(f"suite {self.id!r} has rules for {task!r}, not a task of it")
        named = {"specialists": self.specialists, "measurements": self.measurements}
        named |= {f"seeds on {task}": rules.seeds for task, rules in self.task_rules.items()}
        for what, by_protocol in named.items():
            for name in by_protocol.keys() - self.protocols.keys():
                raise ConfigError(f"suite {self.id!r} has {what} of {name!r}, not a protocol")

    def protocol(self, name: str | None, task: str | None = None) -> Protocol:
        """Return a protocol by name, as it is on a task.

        Args:
            name: `None` is the default.
            task: full id; `None` leaves out what only single tasks have.

        Raises:
            ConfigError: unknown name.
        """
        name = self.default_protocol if name is None else name
        if name not in self.protocols:
            raise ConfigError(
                f"suite {self.id!r} has no protocol {name!r}{did_you_mean(name, self.protocols)}"
            )
        protocol = self.protocols[name]
        rules = self.rules(task) if task else TaskRules()
        if rules.target_kl is not None:
            protocol = replace(protocol, ppo=replace(protocol.ppo, target_kl=rules.target_kl))
        seeds = rules.seeds.get(name)
        return replace(protocol, seeds=seeds) if seeds else protocol

    def rules(self, task: str) -> TaskRules:
        """Return what is special to a task, given by its full id."""
        return self.task_rules.get(task, TaskRules())

    def only(self, task: str) -> "Suite":
        """Return the suite as far as it concerns one task.

        The definition of that part stays the same when other tasks join the suite.
        """
        rules = {name: rule for name, rule in self.task_rules.items() if name == task}
        return replace(self, tasks=(task,), task_rules=rules)

    def task(self, name: str) -> str:
        """Return the full id of a task given as `unimal-ft-v1`, `unimal-ft` or `ft`.

        Raises:
            ConfigError: the suite has no such task.
        """
        for task in self.tasks:
            if name in _names(task):
                return task
        known = [_names(task)[-1] for task in self.tasks]
        raise ConfigError(f"suite {self.id!r} has no task {name!r}{did_you_mean(name, known)}")


def short_name(task: str) -> str:
    """Return a task's name without suite and version, e.g. `ft` for `unimal-ft-v1`."""
    return _names(task)[-1]


def _names(task: str) -> tuple[str, str, str]:
    bare = task.rpartition("-v")[0]
    return task, bare, bare.partition("-")[2] or bare
