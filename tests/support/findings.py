"""Made-up studies, boards and measurements for tests of findings."""

from collections.abc import Sequence
from pathlib import Path

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import analyse
from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.pools import BoardPool
from gmc_bench.leaderboard.keeping import files_to_keep, keep
from gmc_bench.leaderboard.rules import rules_of_variants
from gmc_bench.methods import METHODS
from gmc_bench.records.kept import BodySetId, KeptStudy, StudyNumbers
from gmc_bench.records.store import sealed
from tests.support.records import UNTRAINED, digest_of, make_record, make_returns, make_stored

POOL = BoardPool("unimal-v1", "unimal-ft-v1")
TEXTS = {"id": "x", "says": "x", "printed": "", "source": "x", "pool": POOL, "metric": "test_score"}
ENGINE = {"mujoco": "1.2.3"}
"""As in all made-up records."""
FULL = 1_998_848.0
"""Control steps of a whole run: 2,000,000 in whole rollouts of 256 x 16."""


def keep_all(paths: Sequence[Path], board: Path) -> tuple[list[Path], list[Path]]:
    """Keep what can be kept; return the new files and the other paths."""
    files, others = files_to_keep(paths, board)
    return keep(files), others


def make_study(
    seeds: tuple[int, ...] = (1, 2), steps: float = FULL, **changes: object
) -> KeptStudy:
    """Return a study of token orders: two orders, one of them better, with every seed."""
    bodies = BodySetId(id="unimals_100", digest=digest_of("set"))
    rules = rules_of_variants("unimal-v1", "unimal-ft-v1", "lite", "recmorph", "lite")
    assert rules is not None
    runs = tuple(
        StudyNumbers(
            arm=arm, task="unimal-ft-v1", seed=seed, method="recmorph",
            record_digest=digest_of(f"{arm}{seed}"), git_commit="0" * 40, git_dirty=False,
            morphologies=bodies, method_version=rules.method_version, preset="lite",
            protocol_digest=rules.protocol, task_digest=rules.task, changes=(),
            numbers={"training_return": value + seed, "env_steps": steps, "core_seconds": 1e3},
        )
        for arm, value in (("dfs", 100.0), ("random", 50.0))
        for seed in seeds
    )  # fmt: skip
    fields = {"study": "ordering", "suite": "unimal-v1", "protocol": "lite", "status": "complete"}
    return KeptStudy(**{**fields, "runs": runs, "versions": ENGINE, **changes})


def make_board(
    *, version: int = 1, bodies: str = "unimals_100", **scores: tuple[float, ...]
) -> Evidence:
    """Return the board of `POOL` with test and train scores of methods by seed."""
    sets = {**make_record().morphologies.model_dump(), "id": bodies, "num_test": 1}
    same = {"morphologies": sets, "protocol_seeds": (1, 2, 3)}
    stored = [
        make_stored(
            make_record(
                method=method, seed=seed, method_version=version,
                returns=make_returns("train", {"a": [score], "b": [score]})
                + make_returns("test", {"c": [score]}),
                **same, **({**UNTRAINED, "parameters": 0} if method == "zero-action" else {}),
            ),
            f"{method}{seed}.json",
        )
        for method, values in scores.items()
        for seed, score in enumerate(values, 1)
    ]  # fmt: skip
    tables, _ = aggregate(stored)
    return Evidence(tuple(map(analyse, tables)), {}, {})


def with_changes(study: KeptStudy, **changes: object) -> KeptStudy:
    """Return a study with other fields in all runs."""
    runs = tuple(run.model_copy(update=changes) for run in study.runs)
    return study.model_copy(update={"runs": runs})


def make_scaling(folder: Path, **changes: object) -> Path:
    """Write the outcome of a study of scaling: the exponent of a method, with other fields."""
    folder.mkdir(exist_ok=True)
    (folder / "scaling.json").write_text("{}")
    version = METHODS.get("recmorph").version
    item = {"kind": "act-time", "key": "act_ms", "method": "recmorph", "method_version": version}
    numbers = {"value": 0.9, "low": 0.8, "high": 1.05, "sizes": [128, 1024]}
    exponent = {name: changes.pop(name, value) for name, value in {**item, **numbers}.items()}
    content = {
        "request": {"preset": changes.pop("preset", "lite")},
        "setting": {"hardware": {"cpu": "x"}},
        "exponents": [exponent],
        "git_commit": "0" * 40,
        "git_dirty": False,
        **changes,
    }
    kept = {name: value for name, value in content.items() if value is not ...}
    (folder / "study.json").write_bytes(sealed(kept))
    return folder
