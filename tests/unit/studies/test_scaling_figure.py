"""Pictures of what was measured."""

import io

import numpy as np
import pytest
from PIL import Image

from gmc_bench.studies.scaling import Measurements, ScalingCell
from gmc_bench.studies.scaling_figure import draw_scaling


def cells(power):
    return [
        ScalingCell("act-time", method, size, {"act_ms": size**power})
        for method in ("a", "b")
        for size in (8, 16, 32)
    ]


def test_the_same_cells_give_the_same_bytes_and_others_do_not():
    pictures = [draw_scaling(Measurements(cells(power)), "tokens") for power in (1, 1, 2)]
    assert pictures[0] == pictures[1] != pictures[2]
    assert np.asarray(Image.open(io.BytesIO(pictures[0]))).std() > 10


@pytest.mark.slow
def test_panels_without_numbers_are_left_out():
    one = Image.open(io.BytesIO(draw_scaling(Measurements(cells(1)), "tokens")))
    more = [ScalingCell("train-time", "a", size, {"train_ms": 1.0}) for size in (8, 16)]
    two = Image.open(io.BytesIO(draw_scaling(Measurements([*cells(1), *more]), "tokens")))
    assert two.width > one.width


def test_without_numbers_there_is_no_picture():
    refused = [ScalingCell("act-time", "a", 8, reason="more than 1 s")]
    assert draw_scaling(Measurements(refused), "tokens") is None
    assert draw_scaling(Measurements(cells(1)), "bodies") is None
