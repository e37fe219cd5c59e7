"""A suite: tasks x bodies x protocols. Tasks and body sets are named by id, not imported."""

from collections.abc import Mapping
from dataclasses import dataclass

from gmc_bench.errors import ConfigError, did_you_mean
from gmc_bench.suites.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite. A released suite never changes its numbers: a change is a new version."""

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

    def __post_init__(self) -> None:
        for name, protocol in self.protocols.items():
            if protocol.name != name:
                raise ConfigError(
                    f"suite {self.id!r} lists the protocol {protocol.name!r} as {name!r}"
                )
        if self.default_protocol not in self.protocols:
            raise ConfigError(f"suite {self.id!r} has no protocol {self.default_protocol!r}")

    def protocol(self, name: str | None) -> Protocol:
        """Return a protocol by name; `None` is the default.

        Raises:
            ConfigError: unknown name.
        """
        name = name or self.default_protocol
        if name not in self.protocols:
            raise ConfigError(
                f"suite {self.id!r} has no protocol {name!r}{did_you_mean(name, self.protocols)}"
            )
        return self.protocols[name]

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


def _names(task: str) -> tuple[str, str, str]:
    bare = task.rpartition("-v")[0]
    return task, bare, bare.partition("-")[2] or bare
