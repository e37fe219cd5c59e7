"""Made-up runs of three methods of which one pair is far apart and one is not."""

from collections.abc import Sequence

from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.records.schema import RunRecord
from tests.support.records import make_record, make_returns, make_stored

BODIES = "cdefgh"
ASKED = (1, 2)
"""Seeds of the protocol."""


def analysis_of(records: Sequence[RunRecord]) -> TableAnalysis:
    """Return the statistics of the one table that runs make."""
    (table,), _ = aggregate(make_stored(item, f"{n}.json") for n, item in enumerate(records))
    return analyse(table)


def run_of(method: str, seed: int, score: float, **changes: object) -> RunRecord:
    """Return a run whose bodies score alike but for a little."""
    test = {body: [score + 0.1 * place] for place, body in enumerate(BODIES)}
    sets = make_record().morphologies.model_copy(update={"num_test": len(BODIES)})
    returns = make_returns("train", {"a": [1.0], "b": [1.0]}) + make_returns("test", test)
    fields = {"protocol_seeds": ASKED, "returns": returns, "morphologies": sets, **changes}
    return make_record(method=method, seed=seed, **fields)


FAR = [run_of("far", 1, 100.0), run_of("far", 2, 104.0)]
NEAR = [run_of("near", 1, 12.0), run_of("near", 2, 14.5)]
NEXT = [run_of("next", 1, 17.0), run_of("next", 2, 22.0)]
