"""Conformance of a controller: what every method must keep, and what it claims."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from gmc_bench.errors import GmcBenchError
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.testing.method_checks import CHECKS, CheckFailedError, make_subject

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Outcome of one check."""

    name: str
    passed: bool
    detail: str = ""
    """What was found and expected, when the check failed."""


def check_method(method: MethodSpec, preset: str | None = None) -> list[CheckResult]:
    """Check that a controller keeps the benchmark's contract.

    Actor and critic are built for random bodies and run on a CPU; torch's random state is left as
    it was. The checks, in the order of the results: parameter counts, output shapes, finite
    outputs, inputs unchanged, padding ignored, bodies of a batch independent, more token slots
    change nothing, every parameter gets a gradient, weights survive saving and loading, the build
    follows the seed, and the claims about limb order and limb tree hold.

    Args:
        method: the controller.
        preset: which of its presets to build; `None` takes the defaults.

    Returns:
        One result per check; a single failed `build` when nothing can be built. A check that
        raises is a failed check.
    """
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
            results.append(CheckResult(name=name, passed=True))
            return found
        return None

    with torch.random.fork_rng(devices=[]):
        subject = run("build", partial(make_subject, method, preset))
        if subject is not None:
            for name, check in CHECKS.items():
                run(name, partial(check, subject))
    return results
