"""Fuzzing of everything that reads files from elsewhere; resumable.

python -m benchmarks.fuzz --executions 1000000 --out benchmarks/reached/fuzz.json

With atheris (`pip install atheris`), coverage guides it; without, inputs are changed at random and
those are kept that make a reader say something new. Each round runs one target in a process of its
own, which may take 1 GiB more than it has after its imports and 5 s of processor time per input. An
input that breaks a rule, or the process, is written to `tests/fixtures/fuzz/TARGET`, where the
tests run it ever after, and the command ends with exit code 1.
"""

import argparse
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.fuzz_targets import SEEDS, TARGETS, Target, call, make_target, seeds
from benchmarks.script import count, make_resumable_parser, read_results, run, write_results
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import aligned
from gmc_bench.profiling.report import ROOT

GOAL = 1_000_000  # executions of all targets
MEMORY = 1 << 30  # bytes beyond what a process has before its first input
SECONDS = 5  # of processor time, for one input
LONGEST = 1 << 14  # bytes of an input
ROUND = 25_000  # executions; starting a process costs as much as thousands
KEPT = 2000  # inputs of a target that are remembered
ODD = (
    b"nan", b"inf", b"-1", b"0", b"1e308", b"-1e-320", b"99999999999999999999", b"null", b"true",
    b"{}", b"[]", b'""', b"[" * 300, b"{\"a\":" * 300, b"- " * 300, b"&a [*a, *a]", b"<<: *a",
    b"!!python/object:os.system", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"..", b"../../etc/passwd",
    b"2024-99-99", b"0x10", b"1_000", b"<!DOCTYPE a>", b"<include file='/etc/passwd'/>", b"%s%n",
)  # fmt: skip
"""What readers stumble over."""


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return an input changed in one to eight places, partly by pieces of another one."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        place = rng.randrange(len(data) + 1)
        end = min(len(data), place + rng.choice((1, 1, 4, 20, 200)))
        piece = data[place:end]
        match rng.randrange(8):
            case 0:
                new = b""
            case 1:
                new = bytes([rng.randrange(256)])
            case 2:
                new = piece * rng.choice((2, 3, 50))
            case 3:
                new = rng.choice(ODD)
            case 4:
                start = rng.randrange(len(other) + 1)
                new = other[start : start + rng.choice((4, 20, 200))]
            case 5:
                new = bytes(byte ^ (1 << rng.randrange(8)) for byte in piece[:1]) + piece[1:]
            case 6:
                data, new = _swapped(data, other, rng), piece
            case _:
                new = piece[::-1]
        data = data[:place] + new + data[end:]
    return data[:LONGEST]


def _swapped(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return an input with a number or a word of it replaced."""
    found = list(re.finditer(rb"-?\d+\.?\d*|\w+|\"[^\"]*\"", data))
    if not found:
        return data
    place = rng.choice(found)
    words = re.findall(rb"-?\d+\.?\d*|\w+|\"[^\"]*\"", other) or [b"a"]
    return data[: place.start()] + rng.choice((*ODD[:12], rng.choice(words))) + data[place.end() :]


def _shape(sentence: str) -> str:
    """Return a sentence without what comes from the input."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|[-\d.]+|/\S+", "", sentence)[:120]


def found_name(data: bytes) -> str:
    """Return the name under which an input is kept that broke a target."""
    return f"found-{hashlib.sha256(data).hexdigest()[:16]}"


class TooSlowError(BaseException):
    """One input takes too much processor time; no `Exception`, so that no reader refuses it."""


class _Slow:
    """Raises `TooSlowError` when a call takes too much processor time."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, self._stop)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    @staticmethod
    def _stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlowError(f"more than {SECONDS} s")


def limit_memory() -> None:
    """Let this process take `MEMORY` more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def timed_call(target: Target, data: bytes) -> tuple[str, float]:
    """Call a target with an input; return what it said and the processor seconds it took.

    Raises:
        Exception: whatever the target raises that it must not.
        TooSlowError: it takes more than `SECONDS`, whatever became of it.
    """
    started = time.process_time()
    with _Slow():
        said = call(target, data)
    seconds = time.process_time() - started
    if seconds > SECONDS:  # the target caught even what should have stopped it
        raise TooSlowError(f"{seconds:.1f} s, more than {SECONDS} s")
    return said, seconds


def change_and_call(
    target: Target, known: list[bytes], count: int, rng: random.Random,
    before: Callable[[bytes], object] = lambda data: None,
) -> float:  # fmt: skip
    """Call a target with changed inputs.

    Args:
        target: what to call.
        known: inputs to start from; those that make it say something new are added.
        count: calls.
        rng: of the changes.
        before: is told each input before it is tried.

    Returns:
        The longest time of a call, processor seconds.

    Raises:
        Exception: whatever the target raises that it must not.
        TooSlowError: a call takes more than `SECONDS`, whatever became of it.
    """
    shapes, slowest = set(), 0.0
    for data in known:
        before(data)
        said, seconds = timed_call(target, data)
        shapes.add(_shape(said))
        slowest = max(slowest, seconds)
    for _ in range(count):
        data = mutated(rng.choice(known), rng.choice(known), rng)
        before(data)
        said, seconds = timed_call(target, data)
        slowest = max(slowest, seconds)
        if (shape := _shape(said)) not in shapes and len(known) < KEPT:
            shapes.add(shape)
            known.append(data)
    return slowest


def _child(name: str, count: int, number: int, corpus: Path) -> None:
    """Run one round; the input that was under way stays in the file `current`."""
    current = corpus / "current"
    target = make_target(name)
    known = [*seeds(name), *(path.read_bytes() for path in sorted(corpus.glob("k-*")))]
    limit_memory()
    rng, there = random.Random(f"{name} {number}"), len(known)
    slowest = change_and_call(target, known, count, rng, current.write_bytes)
    for data in known[there:]:
        (corpus / f"k-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"executions": count, "slowest_s": slowest, "peak_bytes": peak}))


def fuzz(name: str, count: int, number: int, corpus: Path, *, guided: bool) -> dict[str, Any]:
    """Run one round of a target in a process of its own.

    Args:
        name: of the target.
        count: executions.
        number: of the round; everything random follows from it.
        corpus: folder of the inputs that are remembered; made.
        guided: by coverage.

    Returns:
        `executions` and, if there is one, the `finding` with its `words`.

    Raises:
        ConfigError: the process failed before it tried an input.
    """
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "current").unlink(missing_ok=True)  # of the round before
    command = [sys.executable, "-m", "benchmarks.fuzz", "--target", name]
    if guided:
        command = [
            sys.executable, "-m", "benchmarks.fuzz_guided", name, f"-runs={count}",
            f"-seed={number + 1}", f"-max_len={LONGEST}",
            f"-timeout={SECONDS}", "-rss_limit_mb=2048", f"-malloc_limit_mb={MEMORY >> 20}",
            f"-artifact_prefix={corpus}/finding-", "-print_final_stats=1", str(corpus),
            str(SEEDS / name),
        ]  # fmt: skip
    else:
        command += ["--runs", str(count), "--round", str(number), "--corpus", str(corpus)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        if guided:
            stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", done.stderr))
            return {
                "executions": int(stats.get("number_of_executed_units", count)),
                "slowest_s": float(stats.get("slowest_unit_time_sec", 0)),
                "peak_bytes": int(stats.get("peak_rss_mb", 0)) << 20,
            }
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found
    lines = [
        line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception)", line)
    ]
    words = lines[-1] if lines else f"ended with {done.returncode}: {done.stderr[-300:]}"
    files = [file for file in (*corpus.glob("finding-*"), corpus / "current") if file.exists()]
    if not files:
        raise ConfigError(f"a round of {name} tried no input: {' '.join(words.split())}")
    data = files[0].read_bytes()
    place = SEEDS / name / found_name(data)
    place.write_bytes(data)
    for file in files:
        file.unlink()
    return {"executions": 0, "finding": place.name, "words": words[:500]}


def _run_rounds(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Run what is missing; return the results, and whether there was a finding now."""
    content = read_results(options.out, targets={})
    guided = options.engine == "atheris"
    corpora = options.corpus or Path(tempfile.mkdtemp(prefix="gmc-fuzz-corpus-"))
    end = time.monotonic() + options.seconds
    rows = content["targets"]
    while (
        sum(row["executions"] for row in rows.values()) < options.executions
        or set(TARGETS) - rows.keys()  # those that were added since
    ):
        name = min(TARGETS, key=lambda item: rows.get(item, {}).get("executions", 0))
        row = rows.setdefault(name, {"executions": 0, "rounds": 0, "engines": [], "findings": {}})
        found = fuzz(name, ROUND, row["rounds"], corpora / name, guided=guided)
        row["rounds"] += 1
        row["executions"] += found["executions"]
        row["engines"] = sorted({*row["engines"], options.engine})
        for key in ("slowest_s", "peak_bytes"):
            row[key] = max(row.get(key, 0), found.get(key, 0))
        if "finding" in found:
            row["findings"][found["finding"]] = found["words"]
            print(f"{name}: {found['words']}", flush=True)
        write_results(options.out, content)
        if "finding" in found:
            return content, True
        if time.monotonic() > end:
            break
    return content, False


def to_text(content: dict[str, Any]) -> str:
    """Return results as a table."""
    return aligned(
        ["target", "executions", "slowest, s", "peak, MiB", "findings"],
        [
            [
                name, f"{row['executions']:,}", f"{row.get('slowest_s', 0):.2f}",
                f"{row.get('peak_bytes', 0) >> 20:,}", str(len(row["findings"])),
            ]
            for name, row in content["targets"].items()
        ],
    )  # fmt: skip


def main() -> int:
    """Run what is missing; return 1 after a finding."""
    parser = make_resumable_parser("Fuzz everything that reads files.", is_needed=False)
    text = f"of all targets (default: {GOAL:,})"
    parser.add_argument("--executions", type=count, default=GOAL, help=text)
    parser.add_argument("--corpus", type=Path, help="folder of inputs to remember")
    parser.add_argument(
        "--engine", choices=("atheris", "mutations"),
        default="atheris" if find_spec("atheris") else "mutations",
    )  # fmt: skip
    parser.add_argument("--target", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=ROUND, help=argparse.SUPPRESS)
    parser.add_argument("--round", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.target:
        _child(options.target, options.runs, options.round, options.corpus)
        return 0
    if options.out is None:
        parser.error("--out is missing")
    content, has_found = _run_rounds(options)
    print(to_text(content))
    return int(has_found)


if __name__ == "__main__":
    run(main)
