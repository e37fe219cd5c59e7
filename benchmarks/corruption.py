"""Damage of files: every kind that is read back, truncated, with flipped bits and worse.

python -m benchmarks.corruption --cases 100000 --out benchmarks/reached/corruption.json

Each case damages one file of a real run and reads it again. Damage must be refused in one sentence,
or passed over where what is lost is made again (a line of a journal), or be without effect: then
what was read equals, field by field and bit by bit, what is in the whole file. Anything else is a
failure, and ends the command with exit code 1. What a case does follows from its number alone, so
a command that was stopped goes on where it was, with the same file of results.
"""

import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept_files import KeptFiles, make_kept_files
from benchmarks.script import count, make_resumable_parser, read_results, run, write_results
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.table import aligned

OUTCOMES = ("refused", "passed over", "without effect", "missed", "failed")
"""Of a case; the last two must not happen: another value was read, or the reader broke."""
BAD = ("missed", "failed")
GOAL = 100_000  # cases
MAX_SECONDS = 5.0
MAX_GROWTH = 1 << 30  # bytes of memory beyond what the whole files take
MAX_EXAMPLES = 50
SAVE_EVERY = 2000  # cases


def truncated(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the first part of a file."""
    return data[: rng.integers(len(data))]


def one_bit(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one bit flipped."""
    return _flipped(data, rng, 1)


def several_bits(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with 2 to 64 bits flipped."""
    return _flipped(data, rng, int(rng.integers(2, 65)))


def one_byte(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one byte replaced."""
    place = int(rng.integers(len(data)))
    return data[:place] + rng.bytes(1) + data[place + 1 :]


def another_digit(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file in which one decimal digit is another, which most formats cannot tell."""
    digits = [place for place, byte in enumerate(data[: 1 << 16]) if 48 <= byte <= 57]
    if not digits:
        return one_byte(data, rng)
    place = int(rng.choice(digits))
    return data[:place] + bytes([48 + int(rng.integers(10))]) + data[place + 1 :]


def zeroed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file in which a block is zeros, as after a power cut."""
    start, end = _block(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def removed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file without a block."""
    start, end = _block(data, rng)
    return data[:start] + data[end:]


def repeated(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file in which a block stands twice."""
    start, end = _block(data, rng)
    return data[:end] + data[start:]


def lengthened(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with something behind its end."""
    return data + rng.bytes(int(rng.integers(1, 100)))


DAMAGES = (
    truncated, one_bit, several_bits, one_byte, another_digit, zeroed, removed, repeated,
    lengthened,
)  # fmt: skip


def _flipped(data: bytes, rng: np.random.Generator, count: int) -> bytes:
    found = bytearray(data)
    for bit in rng.integers(8 * len(data), size=count):
        found[bit >> 3] ^= 1 << (bit & 7)
    return bytes(found)


def _block(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    start = int(rng.integers(len(data)))
    return start, min(len(data), start + int(2 ** rng.uniform(0, 12)))


class Corruption:
    """Damages files, reads them and says what came of it.

    Args:
        kept: the files; they are whole again after every case.
    """

    def __init__(self, kept: list[KeptFiles]) -> None:
        self._kept = kept
        self._whole = [item.read() for item in kept]
        for item, whole in zip(kept, self._whole, strict=True):
            if item.read() != whole:
                raise AssertionError(f"{item.name} is not the same when it is read twice")

    def try_one(self, number: int) -> tuple[str, str, str, str]:
        """Run a case.

        Args:
            number: of the case; everything follows from it.

        Returns:
            The kind of files, the kind of damage, the outcome, and a sentence about it.
        """
        kind = number % len(self._kept)
        kept, whole = self._kept[kind], self._whole[kind]
        rng = np.random.default_rng(number)
        path = kept.folder / str(rng.choice(kept.files))
        data = path.read_bytes()
        damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
        while (damaged := damage(data, rng)) == data:
            pass
        path.write_bytes(damaged)
        started = time.process_time()  # what other programs take does not count
        try:
            outcome, words = self._read(kept, whole)
        finally:
            path.write_bytes(data)
        if (seconds := time.process_time() - started) > MAX_SECONDS:
            outcome, words = "failed", f"took {seconds:.1f} s"
        return kept.name, damage.__name__, outcome, f"{path.name}: {words}"

    @staticmethod
    def _read(kept: KeptFiles, whole: Any) -> tuple[str, str]:
        try:
            found = kept.read()
        except GmcBenchError as error:
            if "\n" in str(error) or not str(error):
                return "failed", f"not one sentence: {error}"
            return "refused", str(error)
        except Exception as error:  # noqa: BLE001 - whatever breaks is what is looked for
            return "failed", f"{type(error).__name__}: {error}"
        if found == whole:
            return "without effect", ""
        return ("passed over", "") if kept.is_less(found, whole) else ("missed", "")


class Results:
    """Counts of outcomes, in a file that a later command goes on with.

    Args:
        path: the file; made by `write`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        content = read_results(path)
        self.cases: int = content.get("cases", 0)
        self.core_seconds: float = content.get("core_seconds", 0.0)
        self.largest_growth: int = content.get("largest_growth_bytes", 0)
        self.counts: Counter[tuple[str, str, str]] = Counter(
            {tuple(name.split(" / ")): count for name, count in content.get("counts", {}).items()}
        )
        self.examples: list[dict[str, Any]] = content.get("examples", [])

    def add(self, number: int, kind: str, damage: str, outcome: str, words: str) -> None:
        """Count a case."""
        self.cases = number + 1
        self.counts[kind, damage, outcome] += 1
        if outcome in BAD and len(self.examples) < MAX_EXAMPLES:
            self.examples.append(
                {"case": number, "kind": kind, "damage": damage, "what": f"{outcome}: {words}"}
            )

    def write(self) -> None:
        """Write them."""
        content = {
            "cases": self.cases,
            "outcomes": {name: self.of(2, name) for name in OUTCOMES},
            "core_seconds": round(self.core_seconds, 1),
            "largest_growth_bytes": self.largest_growth,
            "counts": {" / ".join(key): count for key, count in sorted(self.counts.items())},
            "examples": self.examples,
        }
        write_results(self._path, content)

    def of(self, place: int, name: str) -> int:
        """Return how many cases have a kind (0), damage (1) or outcome (2)."""
        return sum(count for key, count in self.counts.items() if key[place] == name)

    def to_text(self) -> str:
        """Return tables by kind of file and by kind of damage."""
        return "\n\n".join(aligned(*self._table(place)) for place in (0, 1))

    def _table(self, place: int) -> tuple[list[str], list[list[str]]]:
        names = dict.fromkeys(key[place] for key in self.counts)
        return [("files", "damage")[place], "cases", *OUTCOMES], [
            [
                name,
                f"{self.of(place, name):,}",
                *(
                    f"{sum(n for key, n in self.counts.items() if (key[place], key[2]) == pair):,}"
                    for pair in ((name, outcome) for outcome in OUTCOMES)
                ),
            ]
            for name in names
        ]


def cases(first: int, last: int, seconds: float) -> Iterator[int]:
    """Yield numbers of cases until there are enough or the time is over."""
    end = time.perf_counter() + seconds
    for number in range(first, last):
        if time.perf_counter() > end:
            return
        yield number


def main() -> int:
    """Run the cases that are missing; return 1 if one of all failed."""
    parser = make_resumable_parser("Damage files and read them again.")
    text = f"in all (default: {GOAL:,})"
    parser.add_argument("--cases", type=count, default=GOAL, help=text)
    options = parser.parse_args()
    results = Results(options.out)
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        corruption = Corruption(make_kept_files(base))
        started, before = time.process_time(), _peak()
        for number in cases(results.cases, options.cases, options.seconds):
            results.add(number, *corruption.try_one(number))
            if results.cases % SAVE_EVERY == 0:
                results.write()
        results.core_seconds += time.process_time() - started
        results.largest_growth = max(results.largest_growth, _peak() - before)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    results.write()
    print(results.to_text())
    for example in results.examples[:10]:
        print(example)
    bad = sum(results.of(2, outcome) for outcome in BAD)
    print(f"{results.cases:,} cases, {bad} not noticed or failed, {results.core_seconds:.0f} s")
    return int(bad > 0 or results.largest_growth > MAX_GROWTH)


def _peak() -> int:
    """Return the largest memory of the process so far, bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    run(main)
