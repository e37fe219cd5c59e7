"""The learning curve is a picture of the stated size that shows the data."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.records.curve import plot_learning_curve
from gmc_bench.records.schema import CurvePoint


def _curve(*returns: float | None) -> list[CurvePoint]:
    return [
        CurvePoint(env_steps=1000 * i, mean_return=value, mean_length=None, episodes=i)
        for i, value in enumerate(returns, start=1)
    ]


def _coloured(path: Path) -> np.ndarray:
    """(height, width) bool: pixels that are neither grey, black nor white, i.e. the curve."""
    image = matplotlib.image.imread(path)[:, :, :3]
    assert image.shape == (500, 800, 3)
    return np.ptp(image, axis=2) > 0.2


def test_draws_a_rising_curve_from_left_below_to_right_above(tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    plot_learning_curve(_curve(0.0, 50.0, 100.0), path, "demo")
    rows, columns = np.nonzero(_coloured(path))
    assert columns.min() < 150
    assert columns.max() > 700
    assert rows[columns.argmin()] > 350
    assert rows[columns.argmax()] < 150
    assert [item.name for item in tmp_path.iterdir()] == ["curve.png"]


def test_leaves_out_points_without_a_mean(tmp_path: Path) -> None:
    with_null, without = tmp_path / "a.png", tmp_path / "b.png"
    plot_learning_curve(_curve(None, 50.0, 100.0), with_null, "demo")
    plot_learning_curve(_curve(None, 50.0, 100.0)[1:], without, "demo")
    assert with_null.read_bytes() == without.read_bytes()


@pytest.mark.parametrize("curve", [[], _curve(None, None)])
def test_a_curve_without_points_is_not_an_error(tmp_path: Path, curve: list[CurvePoint]) -> None:
    path = tmp_path / "curve.png"
    plot_learning_curve(curve, path, "demo")
    assert not _coloured(path).any()


def test_an_empty_picture_says_whether_anything_was_trained(tmp_path: Path) -> None:
    def picture(curve: list[CurvePoint]) -> bytes:
        plot_learning_curve(curve, tmp_path / "curve.png", "demo")
        return (tmp_path / "curve.png").read_bytes()

    untrained, short = picture([]), picture(_curve(None))
    assert untrained != short
    assert short == picture(_curve(None, None))


def test_a_title_with_dollars_is_not_mathematics(tmp_path: Path) -> None:
    # As mathematics this title does not parse, and drawing would raise.
    plot_learning_curve(_curve(1.0, 2.0), tmp_path / "curve.png", r"costs $\frac{1$ more")
    assert _coloured(tmp_path / "curve.png").any()


def test_settings_of_the_user_do_not_change_the_picture(tmp_path: Path) -> None:
    plain, styled = tmp_path / "a.png", tmp_path / "b.png"
    plot_learning_curve(_curve(1.0, 2.0), plain, "demo")
    with matplotlib.rc_context({"text.usetex": True, "savefig.dpi": 37}):  # maybe without LaTeX
        plot_learning_curve(_curve(1.0, 2.0), styled, "demo")
    assert styled.read_bytes() == plain.read_bytes()


def test_a_picture_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        plot_learning_curve(_curve(1.0), tmp_path / "file" / "curve.png", "demo")
