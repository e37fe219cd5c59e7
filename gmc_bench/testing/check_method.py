"""Conformance of a controller: what every method must keep, and what it claims."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from gmc_bench.errors import ConfigError, GmcBenchError, did_you_mean
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.testing.method_checks import CHECKS
from gmc_bench.testing.method_subject import CheckFailedError, make_subject

T = TypeVar("T")

BACKENDS = ("inductor", "aot_eager", "none")
"""Ways to compile: fully, traced only (some seconds per network), not at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Outcome of one check."""

    name: str
    passed: bool
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

    Actor and critic are built for random bodies and run on a CPU; torch's random state is left as
    it was. The checks and their order are those of `gmc_bench.testing.method_checks.CHECKS`; a
    method with a memory and one with weights per body pass through the same ones, with a state
    and with a body's table row that matter.

    Args:
        method: the controller.
        preset: which of its presets to build; `None` takes the defaults.
        checks: names of the checks to run; all by default.
        backend: how to compile, one of `BACKENDS`.

    Returns:
        The result of `build` and one per check; a single failed `build` when nothing can be
        built. A check that raises is a failed check.

    Raises:
        ConfigError: unknown check or backend.
    """
    names = _known("check", CHECKS if checks is None else checks, CHECKS)
    _known("backend", [backend], BACKENDS)
    results: list[CheckResult] = []

    def run(name: str, check: Callable[[], T]) -> T | None:
        try:
            found = check()
        except (CheckFailedError, GmcBenchError) as failure:
            results.append(CheckResult(name=name, passed=False, detail=str(failure)))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            detail = f"raised {type(error).__name__}: {error}"
            results.append(CheckResult(name=name, passed=False, detail=detail))
        else:
            detail = found if isinstance(found, str) else ""
            results.append(CheckResult(name=name, passed=True, detail=detail))
            return found
        return None

    with torch.random.fork_rng(devices=[]):
        subject = run("build", partial(make_subject, method, preset, backend))
        if subject is not None:
            for name in names:
                run(name, partial(CHECKS[name], subject))
    return results


def _known(what: str, names: Iterable[str], known: Iterable[str]) -> list[str]:
    wanted, possible = list(names), list(known)
    for name in wanted:
        if name not in possible:
            raise ConfigError(f"unknown {what} {name!r}{did_you_mean(name, possible)}")
    return wanted
