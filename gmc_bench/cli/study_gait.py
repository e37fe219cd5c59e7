"""The gait study: how two policies move one body, as a picture, numbers and videos."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from gmc_bench.cli import render
from gmc_bench.cli.output import note, say
from gmc_bench.cli.output import table as aligned
from gmc_bench.cli.study_plan import Request
from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.core.table import Table
from gmc_bench.evaluation.evaluate import Evaluation
from gmc_bench.evaluation.one_episode import WantedEpisode
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.session import limb_task
from gmc_bench.records.store import record_digest, sealed, write_atomic
from gmc_bench.studies.gait import SETTLING, Gait, gait_metrics, record_gait
from gmc_bench.studies.gait_figure import plot_gait
from gmc_bench.suites.schema import short_name

if TYPE_CHECKING:
    from gmc_bench.cli.study_results import FinishedRun

HEADINGS = (
    "Task", "Seed", "Body", "Method", "Return", "Speed (m/s)", "Stride frequency (Hz)",
    "Regularity", "Mean duty factor", "Phase coherence",
)  # fmt: skip
_NOTE = (
    "One episode of mean actions per policy, the first of its evaluation. Regularity is the "
    "autocorrelation of the joint angles one stride apart, the duty factor the share of control "
    "steps in which a limb that ever touches the ground does so. One episode on one body is an "
    "illustration, not a comparison of methods."
)


def compare_gaits(request: Request, runs: "Sequence[FinishedRun]", folder: Path) -> None:
    """Record an episode of every run and draw those of one task and seed side by side.

    Args:
        request: what was asked for.
        runs: the finished runs.
        folder: the study's.

    Raises:
        StorageError: a file cannot be written.
    """
    rows, content = [], []
    pairs = dict.fromkeys((run.planned.task, run.planned.seed) for run in runs)
    for task, seed in pairs:
        group = [run for run in runs if (run.planned.task, run.planned.seed) == (task, seed)]
        body = request.body or _best_body(group)
        gaits = [(run.record.method, _record(run, body)) for run in group]
        picture = folder / f"gait_{short_name(task)}_seed{seed}.png"
        shortest = min(gait.length * gait.control_dt for _, gait in gaits)
        plot_gait(gaits, picture, start=SETTLING if shortest > 2 * SETTLING else 0.0)
        say(f"picture  {picture}")
        for run, (method, gait) in zip(group, gaits, strict=True):
            numbers = _numbers(gait)
            cells = [_text(value) for value in numbers.values()]
            rows.append((short_name(task), str(seed), body, method, *cells))
            content.append(
                {
                    "run": run.name,
                    "record_digest": record_digest(run.record),
                    "body": body,
                    **numbers,
                }
            )
            _film(run, body, folder)
    table = Table(HEADINGS, rows, request.study.title, (_NOTE,))
    write_atomic(folder / "table.md", table.to_markdown().encode())
    write_atomic(folder / "table.csv", table.to_csv().encode())
    write_atomic(folder / "study.json", sealed({"study": request.study.id, "gaits": content}))
    say()
    say(aligned(HEADINGS, [list(row) for row in rows]))
    say()
    say(_NOTE)
    say(f"table    {folder / 'table.md'}")


def _best_body(runs: "Sequence[FinishedRun]") -> str:
    """Return the train body with the largest sum of returns, so that no method is favoured."""
    total: dict[str, float] = {}
    for run in runs:
        for item in run.record.returns:
            if (item.split, item.mode) == ("train", "deterministic"):
                total[item.body] = total.get(item.body, 0.0) + item.mean_return
    return max(total, key=lambda name: total[name])


def _record(run: "FinishedRun", name: str) -> Gait:
    import torch

    session, policy = run.load()
    config = session.config
    bodies = session.bodies.split("train")
    index = [body.name for body in bodies].index(name)
    torch.set_num_threads(config.threads)
    with tqdm(unit="step", desc=f"gait of {run.record.method}") as bar:
        evaluation = Evaluation(
            task=limb_task(session),
            bodies=bodies,
            episodes=config.protocol.evaluation.episodes,
            seed=evaluation_seed(config.seed, "train", "deterministic"),
            num_threads=config.threads,
        )
        wanted = WantedEpisode(evaluation=evaluation, body=index)
        return record_gait(policy, wanted, lambda: _advance(bar))


def _advance(bar: Any) -> None:
    bar.update(1)


def _numbers(gait: Gait) -> dict[str, float | None]:
    names = ("speed", "stride_frequency", "regularity", "duty_factor", "phase_coherence")
    try:
        found = gait_metrics(gait)
    except ConfigError:  # it fell before it had settled
        return {"episode_return": gait.episode_return, **dict.fromkeys(names)}
    feet = [float(found.duty_factors[limb]) for limb in found.feet]
    values = (
        found.mean_speed,
        found.stride_frequency,
        found.regularity,
        sum(feet) / len(feet) if feet else math.nan,
        found.mean_phase_coherence,
    )
    return {
        "episode_return": gait.episode_return,
        **{
            name: float(value) if math.isfinite(value) else None
            for name, value in zip(names, values, strict=True)
        },
    }


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _film(run: "FinishedRun", body: str, folder: Path) -> None:
    """Write a video of the episode, where this machine can."""
    options = argparse.Namespace(
        run_dir=run.folder.path,
        body=body,
        split="train",
        mode="deterministic",
        episode=1,
        seconds=None,
        size=None,
        fps=25,
        out=folder / f"{run.name}.mp4",
    )
    try:
        render.show_episode(options)
    except GmcBenchError as error:
        note(f"no video of {run.name}: {error}")
