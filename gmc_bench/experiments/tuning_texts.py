"""Texts about trials for readers: their table, what was kept, and what to do with it."""

from gmc_bench.core.table import aligned, number
from gmc_bench.experiments.trials import TuningResult
from gmc_bench.experiments.tuning import Tuning, TuningFolder


def describe_tuning(result: TuningResult, tuning: Tuning) -> str:
    """Return the table of all trials, and what the method's specification should say.

    Args:
        result: the trials.
        tuning: where they come from.
    """
    content, best = result.content, result.best
    names = list(tuning.ranges)
    rows = [
        [
            f"{trial.number + 1}{' *' if trial.number == best.number else ''}",
            *(f"{trial.settings[name]:.3g}" if name in trial.settings else "none"
              for name in names),
            *(number(value) for value in trial.returns.values()),
            number(trial.value),
            number(trial.core_seconds, 0),
        ]
        for trial in result.trials
    ]  # fmt: skip
    seeds = [f"seed {seed}" for seed in content["seeds"]]
    headings = ["trial", *names, *seeds, "mean", "core s"]
    bodies = content["bodies"]
    folder = TuningFolder(tuning.place())
    return "\n".join([
        "",
        f"{content['method']} on {result.key}, {bodies['train']} bodies of {bodies['id']} "
        f"({bodies['digest'][:12]}), {content['env_steps']:,} env steps per run",
        "",
        aligned(headings, rows),
        "",
        "Returns are training returns; trial 1 has the method's values without tuning, * is kept.",
        "",
        f"trials  {folder.result}",
        "In the method's specification, with the file of trials beside it:",
        f"    {result.to_spec()}",
        '    tuning="tuning.json",  # in a package: "PACKAGE:tuning.json"',
    ])  # fmt: skip
