"""Faults of all kinds while runs are made: killed, starved of disk, lied to about the time.

python -m benchmarks.chaos --kills 1000 --out benchmarks/reached/chaos.json

Every chain is one tiny run of a method in a suite (or a sweep of two tasks) that is hit by several
faults, continued after each, and at its end compared with the run that nobody disturbed: weights
and records byte by byte (but for times), and every step in TensorBoard's curves once. Half of the
faults come at a random operation on the folder's files, in the midst of a write, the others after a
random processor time. Other faults than kills must end with a documented exit code and one
sentence. A chain follows from its number alone; the file of results is continued.
"""

import errno
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing import (  # type: ignore[import-untyped]
    event_accumulator,
)

from benchmarks.command import Command, Ended, Fault, preload_shim, run_command, wait_for, warm_up
from benchmarks.kept_files import TINY, tiny_set
from benchmarks.networks import network_ids
from benchmarks.script import count, make_resumable_parser, read_results, run, write_results
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.core.table import aligned
from gmc_bench.suites import SUITES

SMALL = (
    "--protocol", "smoke", "--threads", "1", "--num-envs", "4", "--rollout-length", "32",
    "--env-steps", "640", "--ppo.batch-size", "64", "--evaluation.episodes", "1",
    "--checkpoint-interval", "0",
)  # fmt: skip
"""Five iterations with a checkpoint after each, and one episode per body and mode."""
SWEEP = "two tasks"
TIMES = ("created", "wall_clock_s", "env_steps_per_s", "digest", "git_commit", "git_dirty")
"""Fields of records that two equal runs differ in."""
KILLS = 6  # of a chain at most
GOAL = 1000  # kills in all
EXIT_CODES = {0, 2, 130}
"""What commands may end with after other faults than kills: done, one sentence, interrupted."""
ERRORS = {"disk full": errno.ENOSPC, "I/O error": errno.EIO, "read-only": errno.EROFS}
MOMENTS = (
    "before the settings", "before a checkpoint", "in training", "while writing", "while scoring",
    "after the record",
)  # fmt: skip


class Case:
    """A method in a suite, and how its command is written.

    Args:
        method: its id.
        suite: its id.
        task: one, or `SWEEP` for two at once.
    """

    def __init__(self, method: str, suite: str, task: str) -> None:
        self.name = f"{method} / {suite}" + (f" / {SWEEP}" if task == SWEEP else "")
        tasks = ("ft", "incline") if task == SWEEP else (task,)
        bodies = () if suite.startswith("quadruped") else ("--morphologies", TINY)
        self.runs = tasks if task == SWEEP else (".",)
        # Measuring friction takes nine tenths of a run, so there only one method comes again.
        self.again = not SUITES.get(suite).measurements or method == "recmorph"
        self.words = (
            "run", "--method", method, "--suite", suite, "--task", *tasks, *bodies, *SMALL,
        )  # fmt: skip


def make_cases() -> list[Case]:
    """Return all methods in all suites; those that differ in more than one come last."""
    methods = network_ids()
    suites = {name: SUITES.get(name).tasks[0] for name in SUITES.names()}
    first = [Case(method, "unimal-v1", "ft") for method in methods]
    first += [
        Case("recmorph", suite, task) for suite, task in suites.items() if suite != "unimal-v1"
    ]
    first += [Case("recmorph", "unimal-v1", SWEEP)]
    known = {case.name for case in first}
    rest = (Case(method, suite, task) for suite, task in suites.items() for method in methods)
    return [*first, *(case for case in rest if case.name not in known)]


def moment_of(folder: Path, case: Case) -> str:
    """Return what a run was doing when it was killed, by what is in its folder."""
    runs = [folder / name for name in case.runs]
    begun = [path for path in runs if (path / "config.yaml").is_file()]
    if not begun:
        return MOMENTS[0]
    path = begun[-1]
    if any(path.glob(".*.tmp")) or any(path.glob("checkpoints/.*.tmp")):
        return "while writing"
    if all((item / "record.json").is_file() for item in runs):
        return "after the record"
    if (path / "policy.safetensors").is_file():
        return "while scoring"
    some = any(item.name.isdigit() for item in path.glob("checkpoints/*"))
    return "in training" if some else "before a checkpoint"


def contents(folder: Path, case: Case) -> dict[str, Any]:
    """Return what must be the same however a run came to its end, by name."""
    found: dict[str, Any] = {}
    for name in case.runs:
        path = folder / name
        record = json.loads((path / "record.json").read_bytes())
        for field in TIMES:
            record.pop(field, None)
        found[f"{name} policy"] = (path / "policy.safetensors").read_bytes()
        found[f"{name} record"] = json.dumps(record, sort_keys=True).encode()
        found[f"{name} steps"] = steps(path / "tensorboard")
    return found


def steps(folder: Path) -> list[tuple[str, list[int]]]:
    """Return the steps at which TensorBoard shows a number, by tag."""
    events = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [
        (tag, [e.step for e in events.Scalars(tag)]) for tag in sorted(events.Tags()["scalars"])
    ]


class Chaos:
    """Chains of faults.

    Args:
        base: an empty folder.
        why_no_shim: why operations on files cannot fail here, if so.
    """

    def __init__(self, base: Path, why_no_shim: str) -> None:
        self._base, self._has_shim = base, not why_no_shim
        os.environ[DATA_VARIABLE] = str(base / "data")
        store_set(tiny_set())
        self._cases = make_cases()
        self._again = [case for case in self._cases if case.again]
        self._whole: dict[str, tuple[dict[str, Any], Ended]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def reference(self, case: Case) -> tuple[dict[str, Any], Ended]:
        """Return what the undisturbed run of a case comes to, and how it ended."""
        if case.name not in self._whole:
            folder = self._base / "whole"
            ended = run_command([*case.words, "--out", folder], folder, self._base)
            if ended.code:
                raise AssertionError(f"{case.name} fails undisturbed: {ended.err[-500:]}")
            self._whole[case.name] = contents(folder, case), ended
            shutil.rmtree(folder)
        return self._whole[case.name]

    def chain(self, number: int) -> None:
        """Run a chain; what goes wrong is added to `problems`."""
        rng = random.Random(number)
        cases = self._cases if number < len(self._cases) else self._again
        case = cases[number % len(cases)]
        whole, ended = self.reference(case)
        folder = self._base / f"chain-{number}"
        others = [self._errors, self._stopped, self._shared, self._clock, self._diverges]
        before = len(self.problems)
        if number % 4 == 3:
            others[(number // 4) % len(others)](case, folder, ended, rng)
        else:
            self._kills(case, folder, ended, rng)
        done = run_command(self._words(case, folder), folder, self._base)
        if done.code:
            self._blame(number, case, f"cannot be finished: {done.code} {done.err[-400:]}")
        else:
            found = contents(folder, case)
            for name in whole:
                if found[name] != whole[name]:
                    kind = "lost or repeated steps" if name.endswith("steps") else "other bytes"
                    self.counts[kind] += 1
                    self._blame(number, case, f"{kind} in {name}")
        self.counts["chains"] += 1
        self.counts[f"case: {case.name}"] += 1
        if len(self.problems) == before:
            shutil.rmtree(folder)

    def _blame(self, number: int, case: Case, what: str) -> None:
        self.problems.append(f"chain {number}, {case.name}: {what}")

    @staticmethod
    def _words(case: Case, folder: Path) -> Sequence[object]:
        marker = "plan.yaml" if len(case.runs) > 1 else "config.yaml"
        if (folder / marker).is_file():
            return ("run", "--resume", folder)
        return (*case.words, "--out", folder)

    def _fault(self, ended: Ended, rng: random.Random, error: int = 0) -> Fault:
        if self._has_shim and (error or rng.random() < 0.5):
            # A resumed run has fewer operations; what lies beyond its end does not happen.
            operation = rng.randrange(max(1, int(0.8 * ended.operations)))
            return Fault(
                operation=operation, error=error, for_good=bool(error) and rng.random() < 0.5
            )
        return Fault(cpu_seconds=rng.uniform(0.0, ended.cpu_seconds))

    def _kills(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        for _ in range(KILLS):
            found = run_command(
                self._words(case, folder), folder, self._base, self._fault(ended, rng)
            )
            if found.code == 0:
                return
            if found.code not in (-signal.SIGKILL, -signal.SIGPROF):
                self._blame(-1, case, f"a kill ended it with {found.code}: {found.err[-400:]}")
                return
            self.counts["kills"] += 1
            self.counts[f"kill {moment_of(folder, case)}"] += 1

    def _errors(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        """Let operations on files fail, once or from there on."""
        if not self._has_shim:
            return
        for name, error in ERRORS.items():
            fault = self._fault(ended, rng, error)
            found = run_command(self._words(case, folder), folder, self._base, fault)
            self._check(case, name, found, f"{fault}")

    def _check(self, case: Case, name: str, found: Ended, detail: str = "") -> None:
        """Count a fault; it must end in a documented way, with one sentence."""
        last = (found.err.splitlines() or [""])[-1]
        # Of several runs, one may fail and the others go on; the table says which, and why.
        several = found.code == 1 and len(case.runs) > 1
        plain = found.code == 0 or several or last.startswith("gmc-bench: ")
        self.counts[f"{name}: exit code {found.code}"] += 1
        if not (found.code in EXIT_CODES or several) or "Traceback" in found.err or not plain:
            self._blame(-1, case, f"{name} {detail}: {found.code} {found.err[-1200:]}")

    def _stopped(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        """Ask the run to end, as schedulers do."""
        for _ in range(2):
            command = Command(self._words(case, folder), folder, self._base)
            time.sleep(rng.uniform(0.1, 2 * ended.cpu_seconds))
            if not command.is_over():
                command.kill_group(signal.SIGTERM)
            found = command.wait()
            if found.code == -signal.SIGTERM:  # it had not come far enough to listen
                self.counts["SIGTERM: before it was listened to"] += 1
                continue
            self._check(case, "SIGTERM", found)

    def _shared(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        """Start a second process on the same folder."""
        marker = folder / ("plan.yaml" if len(case.runs) > 1 else "config.yaml")
        first = Command(self._words(case, folder), folder, self._base)
        if wait_for(marker, first):
            second = run_command(("run", "--resume", folder), folder, self._base)
            self._check(case, "second process", second)
            if second.code == 2 and "in use by another process" not in second.err:
                self._blame(-1, case, f"second process: {second.err[-300:]}")
        found = first.wait()
        self._check(case, "first of two processes", found)
        if found.code:
            self._blame(-1, case, f"the first of two processes was disturbed: {found.err[-300:]}")

    def _clock(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        """Kill the run and go on with a clock that is a day behind, or ahead."""
        if not self._has_shim:
            return
        for shift in rng.sample((-86_400, 86_400, -3_600, 0), 3):
            fault = Fault(cpu_seconds=rng.uniform(0.3, ended.cpu_seconds), clock=shift)
            found = run_command(self._words(case, folder), folder, self._base, fault)
            if found.code == 0:
                return
            self.counts["clock moved, then killed"] += 1
            if found.code != -signal.SIGPROF:
                self._blame(-1, case, f"clock {shift}: {found.code} {found.err[-400:]}")

    def _diverges(self, case: Case, folder: Path, ended: Ended, rng: random.Random) -> None:
        """Train with a rate at which weights overflow, beside the chain's own run."""
        other = folder.with_name(f"{folder.name}-diverges")
        words = (*case.words, "--ppo.lr", "1e30", "--out", other)
        found = run_command(words, other, self._base)
        self._check(case, "loss that is not finite", found)
        if len(case.runs) == 1 and (found.code != 2 or "diverged" not in found.err):
            self._blame(-1, case, f"training went on with NaN: {found.code} {found.err[-300:]}")
        shutil.rmtree(other, ignore_errors=True)


def to_text(counts: Counter[str]) -> str:
    """Return the kills by moment and the other faults by outcome."""
    kills = [[name, f"{counts[f'kill {name}']:,}"] for name in MOMENTS]
    rest = [
        [name, f"{count:,}"]
        for name, count in sorted(counts.items())
        if not name.startswith(("kill ", "case: "))
    ]
    return aligned(["killed", "times"], kills) + "\n\n" + aligned(["what", "times"], rest)


def main() -> int:
    """Run the chains that are missing; return 1 if one ever went wrong."""
    parser = make_resumable_parser("Disturb runs and compare how they end.")
    text = f"in all (default: {GOAL:,})"
    parser.add_argument("--kills", type=count, default=GOAL, help=text)
    options = parser.parse_args()
    why = preload_shim()
    content = read_results(options.out)
    warm_up()
    base = Path(tempfile.mkdtemp(prefix="gmc-chaos-"))
    chaos = Chaos(base, why)
    chaos.counts.update(content.get("counts", {}))
    chaos.problems += content.get("problems", [])
    number, end = content.get("next_chain", 0), time.monotonic() + options.seconds
    while chaos.counts["kills"] < options.kills and time.monotonic() < end:
        chaos.chain(number)
        number += 1
        content = {
            "next_chain": number,
            "counts": dict(sorted(chaos.counts.items())),
            "problems": chaos.problems,
            "not_tried": [f"errors of files and clocks that jump: {why}"] if why else [],
        }
        write_results(options.out, content)
    print(to_text(chaos.counts))
    for problem in chaos.problems:
        print(problem)
    if not chaos.problems:
        shutil.rmtree(base, ignore_errors=True)
    return int(bool(chaos.problems))


if __name__ == "__main__":
    run(main)
