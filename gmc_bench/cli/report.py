"""Result of a run for readers: the summary of its returns, printed."""

from collections.abc import Sequence

from gmc_bench.cli.output import number, say, table
from gmc_bench.records.breakdown import by_limbs, by_loops, scored
from gmc_bench.records.parts import Split
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.training.run_folder import RunFolder

HEADINGS = ("bodies", "n", "return", "worst", "best", "length", "ended early")
"""Columns of `summarize`: bodies counted, returns over bodies, mean length, share of failures."""
_SPLITS: tuple[Split, ...] = ("train", "test")


def summarize(returns: Sequence[BodyReturns]) -> list[list[str]]:
    """Return the rows of the summary table, one per split and mode (see `HEADINGS`)."""
    rows = []
    for split in _SPLITS:
        for mode in ("deterministic", "stochastic"):
            items = [item for item in returns if (item.split, item.mode) == (split, mode)]
            rows += [_summary_row(f"{split}, {mode}", items)] if items else []
            unseen = [item for item in items if not item.seen_in_train]
            if split == "test" and 0 < len(unseen) < len(items):
                rows.append(_summary_row(f"{split}, {mode}, unseen bodies", unseen))
    for split in _SPLITS:
        parts = by_limbs(scored(returns, split)) | by_loops(scored(returns, split))
        rows += [_summary_row(f"{split}, {label}", items) for label, items in parts.items()]
    return rows


def _summary_row(label: str, items: list[BodyReturns]) -> list[str]:
    means = [item.mean_return for item in items]
    episodes = [episode for item in items for episode in item.episodes]
    length = sum(episode.length for episode in episodes) / len(episodes)
    fell = sum(episode.ended != "time_limit" for episode in episodes) / len(episodes)
    return [
        label,
        str(len(items)),
        number(sum(means) / len(means)),
        number(min(means)),
        number(max(means)),
        number(length, 0),
        f"{100 * fell:.0f} %",
    ]


def show(record: RunRecord, folder: RunFolder) -> None:
    """Print the result of a run."""
    say()
    say(
        f"{record.method} on {record.task} ({record.morphologies.id}), protocol {record.protocol}, "
        f"seed {record.seed}: {record.env_steps:,} env steps in {record.wall_clock_s.total:,.0f} s "
        f"({record.env_steps_per_s:,.0f}/s), {record.parameters:,} parameters"
    )
    say(f"training return {number(record.training_return)}")
    say()
    say(table(HEADINGS, summarize(record.returns)))
    say()
    for reason in record.unofficial_reasons:
        say(f"unofficial: {reason}")
    if record.diverged_episodes:
        say(f"diverged training episodes: {record.diverged_episodes}")
    if record.loops_opened:
        say(f"closed loops came open in training: {record.loops_opened} times")
    say(f"record          {folder.record}")
    say(f"learning curve  {folder.curve}")
