"""Front of a README: what the boards show in three sentences, and methods x boards in one table."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from gmc_bench.core.escape import markdown
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.caveats import first_before_tuning, lead_over, listed
from gmc_bench.leaderboard.comparison import share_a_letter
from gmc_bench.leaderboard.findings.claims import VERDICTS
from gmc_bench.leaderboard.findings.evidence import Evidence, read_evidence
from gmc_bench.leaderboard.findings.page import find_all
from gmc_bench.leaderboard.overview import Column, Overview, OverviewCell, make_overview
from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.records.kept import KeptSpeeds

NONE = "—"


def front(
    analyses: Iterable[TableAnalysis], methods: Sequence[str], records: Path, findings: str
) -> str:
    """Return the front as Markdown.

    Args:
        analyses: tables of a leaderboard; those of earlier protocols do not count.
        methods: ids of all methods that a board should have.
        records: the leaderboard's folder.
        findings: link to the page of claims; empty where there is none.

    Raises:
        RecordError: a file of a study or an evaluation was changed, or is something else.
    """
    analyses = tuple(analyses)
    found, evidence = make_overview(analyses, methods), read_evidence(analyses, records)
    sentences = [coverage(found), leader(found)]
    if findings:
        counts = Counter(item.verdict for item in find_all(evidence).values())
        parts = [f"{counts[name]} {name}" for name in VERDICTS if counts[name]]
        sentences.append(
            f"Verdicts on {sum(counts.values())} claims of the RecMorph paper: {', '.join(parts)} "
            f"([findings]({findings}))."
        )
    return "\n".join([" ".join(sentences), "", *grid(found, speeds_on(found, evidence))])


def speeds_on(found: Overview, evidence: Evidence) -> KeptSpeeds | None:
    """Return the speeds measured on the first board that has any of today's."""
    speeds = evidence.todays_speeds().values()
    return next((kept for column in found.columns for kept in speeds if _is_on(kept, column)), None)


def _is_on(speeds: KeptSpeeds, column: Column) -> bool:
    return speeds.board == (column.suite, column.task, column.protocol, column.morphologies)


def coverage(found: Overview) -> str:
    """Return how much of the matrix is there, and how many pairs differ significantly."""
    complete, started = found.num_complete, found.num_started - found.num_complete
    text = (
        f"Of {len(found.cells)} combinations of {len(found.methods)} methods and "
        f"{len(found.columns)} boards, {complete} {'has' if complete == 1 else 'have'} all seeds "
        f"and {started} {'has' if started == 1 else 'have'} some."
    )
    if not found.num_pairs:
        return text
    significant = found.num_significant
    return (
        f"{text} Of {found.num_pairs} pairs of methods on the same board, {significant} "
        f"{'differs' if significant == 1 else 'differ'} significantly (a board calls at least one "
        f"pair of equal methods different in 5 % of cases by intent, in simulations in up to 12 %)."
    )


def leader(found: Overview) -> str:
    """Return who is first on the first board that has ranks, and whose lag is not significant."""
    for place, column in enumerate(found.columns):
        cells = {method: found.cells[method, place] for method in found.methods}
        ranked = {method: cell for method, cell in cells.items() if cell.status == "ranked"}
        if not ranked:
            continue
        first = min(ranked, key=lambda method: (ranked[method].rank or 0, method))
        best = ranked[first]
        alike = [
            name
            for name, cell in ranked.items()
            if name != first and share_a_letter(cell.group, best.group)
        ]
        text = (
            f"On {_board(column)}, {first} is first of {len(ranked)} with a mean return of "
            f"{_ends(best.score)}{_metres(best)} on {_bodies(column)}{lead_over(alike)}."
        )
        before = first_before_tuning(column.analysis) if column.analysis else ""
        return f"{text} {before}" if before else text
    return "No board has places yet: no row has all of its seeds."


def grid(found: Overview, speeds: KeptSpeeds | None = None) -> list[str]:
    """Return the table with its notes; boards and methods without any run are named below.

    Args:
        found: the matrix.
        speeds: of methods on one board, if measured: a last column.
    """
    places = [
        place
        for place in range(len(found.columns))
        if any(found.cells[method, place].status != "not run" for method in found.methods)
    ]
    methods = [
        method
        for method in found.methods
        if any(found.cells[method, place].status != "not run" for place in places)
    ]
    columns = [found.columns[place] for place in places]
    headings = ["Method", *(markdown(column.heading) for column in columns)]
    rows = [
        [method, *(_cell(found.cells[method, place]) for place in places)] for method in methods
    ]
    if any(column.floor is not None for column in columns):
        floors = [NONE if c.floor is None else f"{c.floor:z,.0f}" for c in columns]
        rows.append(["*no action*", *floors])
    if speeds is not None:
        ratios = _ratios(speeds)
        headings.append("Speed")
        rows = [[*row, ratios.get(row[0], NONE)] for row in rows]
    lines = [
        f"| {' | '.join(headings)} |",
        f"| --- |{' ---: |' * (len(headings) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    told = [
        "Mean return of the deterministic policy (the mean of its action distribution) on unseen "
        "bodies (for quadrupeds, on the train bodies). "
        "Methods in a column that share a letter cannot be told apart: they do not differ "
        "significantly. *3/5*: three of five seeds are there; a score needs all of them."
    ]
    if any(found.cells[method, place].share for method in methods for place in places):
        told.append(
            f"In brackets: normalised train score, from {_floors(columns)} (0) to a separate "
            "policy for each body (1)."
        )
    if speeds is not None:
        heading = next(column.heading for column in found.columns if _is_on(speeds, column))
        told.append(
            f"*Speed*: control steps per second of training on the board '{markdown(heading)}', "
            f"as a multiple of {speeds.reference.method}'s ({_rate(speeds):,.0f} on one core of an "
            f"{markdown(speeds.hardware.cpu)}), measured in turns."
        )
    empty = [markdown(column.heading) for column in found.columns if column not in columns]
    if empty:
        told.append(f"Boards without runs: {listed(empty)}.")
    absent = [method for method in found.methods if method not in methods]
    if absent:
        told.append(f"Methods without runs: {listed(absent)}.")
    return [*(lines if columns else []), "", " ".join(told), ""]


def _floors(columns: Sequence[Column]) -> str:
    """Return what the normalised scores of columns count from."""
    scales = [c.analysis.scale for c in columns if c.analysis and c.analysis.scale]
    idle = {scale.floor.key.method == NO_ACTION for scale in scales}
    return "no action at all" if idle == {True} else "no training"


def _ratios(speeds: KeptSpeeds) -> dict[str, str]:
    """Return by method how many times as many control steps per second it trains for."""
    found = {speeds.reference.method: 1.0}
    for item in speeds.methods:
        pairs = zip(item.reference_seconds, item.seconds, strict=True)
        found[item.method] = median(reference / own for reference, own in pairs)
    return {method: f"{ratio:.2f}" for method, ratio in found.items()}


def _rate(speeds: KeptSpeeds) -> float:
    seconds = [value for item in speeds.methods for value in item.reference_seconds]
    return speeds.steps_per_iteration / median(seconds)


def _cell(cell: OverviewCell) -> str:
    if cell.status == "not run":
        return NONE
    if cell.status == "incomplete":
        return f"*{cell.seeds}/{cell.asked}*"
    share = "" if cell.share is None else f" ({cell.share.value:z.2f})"
    return f"{_value(cell):z,.0f} {cell.group}{share}"


def _value(cell: OverviewCell) -> float:
    return 0.0 if cell.score is None else cell.score.value


def _ends(score: Estimate | None) -> str:
    if score is None:
        return NONE
    if score.low is None or score.high is None:
        return f"{score.value:z,.0f}"
    return f"{score.value:z,.0f} (95 % interval {score.low:z,.0f} to {score.high:z,.0f})"


def _metres(cell: OverviewCell) -> str:
    return "" if cell.metres is None else f", or {cell.metres:z,.1f} m,"


def _bodies(column: Column) -> str:
    split = column.analysis.table.split if column.analysis else "test"
    return "bodies it has never seen" if split == "test" else "the bodies it was trained on"


def _board(column: Column) -> str:
    return f"the board '{markdown(column.heading)}'"
