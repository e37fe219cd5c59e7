"""Ranks and rank correlations of few rows, counted by hand."""

import pytest

from gmc_bench.leaderboard.stability import rank_stability


def test_ranks_discordant_pairs_and_rank_correlation_by_hand() -> None:
    mean, median, equal = rank_stability(
        {
            "Mean": [9.0, 7.0, 5.0, 3.0],
            "Median": [4.0, 6.0, 6.0, 1.0],
            "Lacking": [1.0, None, 2.0, 3.0],
            "Equal": [2.0, 2.0, 2.0, 2.0],
        }
    )
    assert (mean.name, mean.ranks, mean.tau, mean.num_discordant) == ("Mean", (1, 2, 3, 4), 1.0, 0)
    # The second and the third share the first rank, and the fourth stays the fourth.
    assert (median.name, median.ranks) == ("Median", (3, 1, 1, 4))
    # Of six pairs three are ordered alike, two the other way round and one not at all:
    # tau-b = (3 - 2) / sqrt(6 * 5).
    assert median.num_discordant == 2
    assert median.tau == pytest.approx(1.0 / 30.0**0.5)
    assert (equal.ranks, equal.tau, equal.num_discordant) == ((1, 1, 1, 1), None, 0)


def test_a_table_whose_rows_are_all_tied_correlates_with_nothing() -> None:
    tied, median = rank_stability({"Mean": [1.0, 1.0, 1.0], "Median": [1.0, 2.0, 3.0]})
    assert (tied.ranks, tied.tau, tied.num_discordant) == ((1, 1, 1), None, 0)
    assert (median.ranks, median.tau, median.num_discordant) == ((3, 2, 1), None, 0)


def test_a_single_row_and_none_have_no_ranking() -> None:
    assert rank_stability({"Mean": [1.0], "Median": [2.0]}) == ()
    assert rank_stability({"Mean": []}) == ()
    assert rank_stability({}) == ()
