"""Tuning of all registered methods with one budget, and what they keep written into their packages.

python -m benchmarks.tune_all --out tuning-all           # the trials that are not there yet
python -m benchmarks.tune_all --out tuning-all --keep    # what came of them into the packages

Every method has as many trials over the same ranges on the same bodies (see `gmc-bench tune`).
Stopped, it goes on where it was; several processes may share the folder if each has methods of its
own. `--keep` copies each method's trials beside its specification and writes `tuned` and `tuning`
into it, in place of older ones; methods that are not finished are left as they are.
"""

import importlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.script import add_bodies, count, make_parser, run
from gmc_bench.core.table import Table, number
from gmc_bench.experiments.search_sets import SEARCH_SET
from gmc_bench.experiments.trials import read_result
from gmc_bench.experiments.tuning import ENV_STEPS, SEEDS, TRIALS, Tuning, TuningSpec
from gmc_bench.methods import METHODS, MethodSpec


def methods() -> list[str]:
    """Return the ids of all methods but single-robot references, which have rules of their own."""
    found = [spec for _, spec in METHODS.items() if isinstance(spec, MethodSpec)]
    return [spec.id for spec in found if not spec.capabilities.per_body]


def table(results: dict[str, dict[str, Any]]) -> Table:
    """Return a row per method: its own values and return, and those that it keeps."""
    rows = []
    for name, content in results.items():
        first, kept = content["trials"][0], content["trials"][content["best"]]
        rows.append(
            [
                name,
                _shown(first["settings"]),
                number(first["value"]),
                _shown(kept["settings"]),
                number(kept["value"]),
                str(len(content["trials"])),
                number(sum(trial["core_seconds"] for trial in content["trials"]), 0),
            ]
        )
    headings = ("method", "untuned", "return", "kept", "return", "trials", "core s")
    return Table(headings, rows)


def _shown(settings: dict[str, float]) -> str:
    names = {"ppo.lr": "rate", "ppo.target_kl": "KL"}
    return ", ".join(f"{names.get(key, 'dropout')} {value:g}" for key, value in settings.items())


def keep(method: str, file: Path) -> Path:
    """Copy a method's trials beside its specification, and write what it keeps into that.

    Args:
        method: id of a method of this repository.
        file: its `tuning.json`.

    Returns:
        The changed module.
    """
    key, content = read_result(file)
    package = str(METHODS.get(method).builder).partition(":")[0].rpartition(".")[0]
    module = Path(str(importlib.import_module(package).__file__))
    name = f"{method}.tuning.json"
    shutil.copyfile(file, module.with_name(name))
    kept = ", ".join(f'"{setting}": {value!r}' for setting, value in content["kept"].items())
    lines = f'    tuned={{"{key}": {{{kept}}}}},\n    tuning="{package}:{name}",\n'
    module.write_text(with_lines(module.read_text(encoding="utf-8"), method, lines), "utf-8")
    return module


def with_lines(source: str, method: str, lines: str) -> str:
    """Return the source of a module with lines put into the specification of one method.

    Raises:
        ValueError: the module does not spell out a specification of this id.
    """
    start = source.find(f'    id="{method}",\n')
    place = source.find("    builder=", start)
    if start < 0 or place < 0:
        raise ValueError(f"no specification with the id {method!r} and a builder is in the module")
    before = source[start:place]
    before = re.sub(r"    tuned=\{.*?\},\n(?=    [a-z])", "", before, flags=re.DOTALL)
    before = re.sub(r"    tuning=[^\n]*\n", "", before)
    return source[:start] + before + lines + source[place:]


def main() -> int:
    """Tune, or write down what was found."""
    parser = make_parser(
        "Tune all methods with one budget.", threads=1, seconds=None, as_json=False
    )
    add_bodies(parser, SEARCH_SET)
    add = parser.add_argument
    add("--out", type=Path, default=Path("tuning-all"), help="folder, one per method below it")
    add("--methods", nargs="+", default=methods(), help="default: all but single-robot references")
    add("--env-steps", type=count, default=ENV_STEPS, help=f"of a run (default: {ENV_STEPS:,})")
    add("--trials", type=count, default=TRIALS, help=f"default: {TRIALS}")
    add("--seeds", type=int, nargs="+", default=list(SEEDS), help="default: 1001")
    add("--keep", action="store_true", help="run nothing; write what is there into the packages")
    options = parser.parse_args()
    found = {}
    for method in options.methods:
        folder = options.out / method
        if not options.keep:
            spec = TuningSpec(
                method=method, bodies=options.morphologies, env_steps=options.env_steps,
                trials=options.trials, seeds=tuple(options.seeds), threads=options.threads,
            )  # fmt: skip
            Tuning(spec, out=folder).resume()
        if (file := folder / "tuning.json").is_file():
            found[method] = read_result(file)[1]
            if options.keep:
                print(f"wrote {keep(method, file)}", file=sys.stderr)
    print(table(found).to_text())
    return 0


if __name__ == "__main__":
    run(main)
