"""A method as it is named on the command line: by registered id, by file or by module."""

import hashlib
from collections.abc import Mapping

from gmc_bench.core.errors import ConfigError, PluginError
from gmc_bench.core.registry import file_of, lasting_target, origin_of
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.training.run_config import RunConfig


def load_method(name: str) -> MethodSpec:
    """Load a method by registered name, `FILE.py:SPEC` or `MODULE:SPEC`.

    Raises:
        UnknownNameError: the name is not registered.
        PluginError: it cannot be loaded, or has the id of another, registered method, whose
            results its own would be mixed with.
    """
    method = METHODS.load(name)
    if ":" in name and METHODS.taken(method.id, method):
        raise PluginError(
            f"{name} has the id {method.id!r} of a registered method; give it an id of its own, or "
            f"name the registered one by {method.id!r} alone"
        )
    return method


def full_name(name: str) -> str:
    """Return the name by which a run folder finds its method again from any working folder."""
    return lasting_target(name) if ":" in name else METHODS.resolve(name)


def method_of(config: RunConfig) -> MethodSpec:
    """Return the method of a run: of a file the text that the run has, if it was loaded before.

    Raises:
        UnknownNameError: its name is not registered.
        PluginError: it cannot be loaded.
    """
    return METHODS.load(config.method, config.method_source_digest)


def method_labels(ids: Mapping[str, str]) -> dict[str, str]:
    """Return what tells methods apart in names of runs, by the names they were given by.

    This is their id; of several with one id, as variants in copies of one file have, it is the name
    of the file or of the module.

    Args:
        ids: of the methods, by name.
    """
    sharing: dict[str, set[str]] = {}
    for name, method_id in ids.items():
        sharing.setdefault(method_id, set()).add(full_name(name))
    return {
        name: method_id if len(sharing[method_id]) == 1 else _place(name)
        for name, method_id in ids.items()
    }


def _place(name: str) -> str:
    file = file_of(name)
    return name.rpartition(":")[0] if file is None else file.stem


def source_digest(name: str) -> str | None:
    """Return the SHA-256 of the file of a method named as `FILE.py:SPEC`; else `None`.

    Raises:
        ConfigError: the file cannot be read.
    """
    file = file_of(name)
    if file is None:
        return None
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"cannot read the method file {file}: {error.strerror}; put it back as it was"
        ) from error


def executed_digest(name: str, method: MethodSpec) -> str | None:
    """Return the SHA-256 of the text that made a method named as `FILE.py:SPEC`; else `None`.

    The file may hold another text by now.
    """
    origin = origin_of(method)
    return None if origin is None or file_of(name) is None else origin.digest


def require_same_text(
    name: str, found: str | None, expected: str | None, what: str = "run"
) -> None:
    """Raise if a method's file is not the one that a run or a tuning was started with.

    Args:
        name: of the method, as it is named on the command line.
        found: SHA-256 of the file now; `None` if it is no file.
        expected: likewise, when it was started.
        what: what was started.

    Raises:
        ConfigError: they differ.
    """
    if found != expected:
        raise ConfigError(
            f"the file of the method {name} has changed since the {what} was started (hash "
            f"{str(found)[:12]}, expected {str(expected)[:12]}); restore it, or start another "
            f"{what}"
        )


def check_shares(config: RunConfig, method: MethodSpec) -> None:
    """Raise unless a run's environments can be divided among its processes.

    Raises:
        ConfigError: there are fewer environments than processes, the method has separate weights
            per body, or one GPU is named for all.
    """
    count, envs = config.processes, config.protocol.num_envs
    if count > 1 and method.capabilities.per_body:
        raise ConfigError(
            f"the method {method.id!r} has separate weights per body and is trained by one "
            f"process, got {count}; leave out --processes"
        )
    if count > 1 and config.device.startswith("cuda:"):
        raise ConfigError(
            f"each process takes a GPU of its own, but --device names {config.device!r} for "
            f"{count} processes; use --device cuda"
        )
    if count > envs:
        raise ConfigError(
            f"each process needs an environment, but the protocol has {envs} and --processes is "
            f"{count}; start fewer processes"
        )
