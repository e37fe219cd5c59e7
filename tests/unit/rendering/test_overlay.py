"""What is written over a picture can be found there."""

import itertools

import numpy as np

from gmc_bench.rendering.overlay import Overlay

COLORS = ((200, 200, 200), (255, 0, 0), (0, 255, 0))
NUMBERS = ("+0.10 m/s", "return 1.00", "0.02 s, step 1")


def drawn(activity, note="", numbers=NUMBERS, title="body"):
    blank = np.full((240, 320, 3), 128, np.uint8)
    return Overlay(320, 240, title, COLORS).draw(blank, numbers, np.array(activity), note)


def height(picture, color):
    """Return how many rows hold a colour."""
    return int((picture == np.array(color)).all(axis=2).any(axis=1).sum())


def test_bars_grow_with_the_activity():
    low, high = drawn([np.nan, 0.5, 0.0]), drawn([np.nan, 1.0, 0.0])
    assert 11 <= height(low, COLORS[1]) <= 15
    assert 23 <= height(high, COLORS[1]) <= 27
    assert height(high, COLORS[2]) <= 3  # the base line alone
    assert height(high, COLORS[0]) <= 3


def test_the_middle_of_the_picture_stays_free():
    assert (drawn([np.nan, 1.0, 1.0])[60:180] == 128).all()


def test_numbers_and_notes_are_written():
    plain = drawn([0.0, 0.0, 0.0])
    other = drawn([0.0, 0.0, 0.0], numbers=("+0.10 m/s", "return 2.00", "0.02 s, step 1"))
    rows, columns = np.nonzero((plain != other).any(axis=2))
    assert len(rows) > 5
    assert rows.max() < 40
    assert 100 < columns.min() <= columns.max() < 215
    noted = np.nonzero((plain != drawn([0.0, 0.0, 0.0], note="fell")).any(axis=2))
    assert 40 < noted[0].min() <= noted[0].max() < 90


def test_a_long_title_is_cut_off_inside_the_picture():
    short = Overlay(320, 240, "x" * 200, COLORS)
    assert short._title.endswith("x...")
    assert short._small.getlength(short._title) <= 320
    assert Overlay(320, 240, "body", COLORS)._title == "body"


def test_letters_beyond_ascii_are_drawn_and_not_replaced_by_one_box():
    pictures = [drawn([0.0, 0.0, 0.0], title=f"b{letter}t") for letter in "\u00fc\u00f8\u0436"]
    for first, second in itertools.combinations(pictures, 2):
        assert (first != second).any()
