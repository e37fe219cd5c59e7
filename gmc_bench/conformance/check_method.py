"""Conformance of a controller: what every method must keep, and what it claims."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from gmc_bench.conformance.backends import BACKENDS
from gmc_bench.conformance.method_checks import CHECKS, FOLLOWING
from gmc_bench.conformance.method_description import require_kept
from gmc_bench.conformance.method_execution import CheckSkippedError
from gmc_bench.conformance.method_subject import (
    CheckFailedError,
    make_subject,
)
from gmc_bench.core.errors import ConfigError, GmcBenchError, did_you_mean
from gmc_bench.core.registry import logged_prints, raised_at
from gmc_bench.methods.spec import MethodSpec, require_description

T = TypeVar("T")

DESCRIPTION = "description"
"""Name of the check of what the method says about itself, which needs no network."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Outcome of one check."""

    name: str
    passed: bool | None
    """`None` if it was skipped."""
    detail: str = ""
    """What was found; when the check failed, the first counterexample and what was expected."""


def check_method(
    method: MethodSpec,
    preset: str | None = None,
    *,
    checks: Iterable[str] | None = None,
    backend: str = "aot_eager",
) -> list[CheckResult]:
    """Check that a controller keeps the benchmark's contract.

    Actor and critic are built for random bodies and run on a CPU, with gradients and without
    autocast, whatever the caller has set; torch's random state and settings are left as they were,
    and what they print is logged. The checks and their order are
    `DESCRIPTION`, of all presets together, and those of
    `gmc_bench.conformance.method_checks.CHECKS`; a method with a memory and one with weights per
    body pass through the same ones, with a state and with a body's table row that matter.

    Args:
        method: the controller.
        preset: which of its presets to build; `None` takes the defaults.
        checks: names of the checks to run; all by default.
        backend: how to compile, one of `BACKENDS`.

    Returns:
        The result of `description`, of `build`, and one per check; none after a failed `build`,
        because nothing can be built. A check that raises is a failed check; those that would fail
        for the same cause as an earlier one are skipped, see
        `gmc_bench.conformance.method_checks.FOLLOWING`.

    Raises:
        ConfigError: unknown check or backend.
    """
    known = (DESCRIPTION, *CHECKS)
    names = _known("check", known if checks is None else checks, known)
    _known("backend", [backend], BACKENDS)
    results: list[CheckResult] = []
    blocked: dict[str, str] = {}

    def run(name: str, check: Callable[[], T]) -> T | None:
        try:
            with _torch_settings_kept():
                found = check()
        except (CheckFailedError, GmcBenchError) as failure:
            for other in FOLLOWING.get(type(failure), ()):  # type: ignore[arg-type]
                blocked.setdefault(other, f"not made, because {name!r} has failed")
            results.append(CheckResult(name=name, passed=False, detail=str(failure)))
        except CheckSkippedError as reason:
            results.append(CheckResult(name=name, passed=None, detail=str(reason)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything
            detail = f"raised {type(error).__name__}: {error}{raised_at(error)}"
            results.append(CheckResult(name=name, passed=False, detail=detail))
        else:
            detail = found if isinstance(found, str) else ""
            results.append(CheckResult(name=name, passed=True, detail=detail))
            return found
        return None

    if DESCRIPTION in names:
        run(DESCRIPTION, partial(_check_description, method))
        names.remove(DESCRIPTION)
    with torch.random.fork_rng(devices=[]), logged_prints(method.id):
        subject = run("build", partial(make_subject, method, preset, backend))
        if subject is not None:
            for name in names:
                if name in blocked:
                    results.append(CheckResult(name=name, passed=None, detail=blocked[name]))
                else:
                    run(name, partial(CHECKS[name], subject))
    return results


@contextmanager
def _torch_settings_kept() -> Iterator[None]:
    """Make a check as where nobody has set anything of torch, and undo what the method sets."""
    gradients, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    threads = torch.get_num_threads()
    around: AbstractContextManager[Any] = nullcontext()
    if torch.is_autocast_enabled("cpu"):
        # Copies of weights would be kept until the caller's context ends, however they change.
        around = torch.autocast("cpu", enabled=False, cache_enabled=False)
    try:
        with torch.inference_mode(False), around:  # the former allows gradients, too
            yield
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def _check_description(method: MethodSpec) -> str:
    """The method says all that a comparison needs, and keeps its rules."""
    require_description(method)
    absent = "".join(f"; not here: {name}" for name in require_kept(method))
    return f"presets {', '.join(method.presets)}{absent}"


def _known(what: str, names: Iterable[str], known: Iterable[str]) -> list[str]:
    wanted, possible = list(dict.fromkeys(names)), list(known)
    for name in wanted:
        if name not in possible:
            raise ConfigError(f"unknown {what} {name!r}{did_you_mean(name, possible)}")
    return wanted
