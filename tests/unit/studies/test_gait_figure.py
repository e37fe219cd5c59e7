"""The picture of gaits is the same each time, and shows what is in them."""

import numpy as np
import pytest
from PIL import Image

from gmc_bench.core.errors import ConfigError
from gmc_bench.studies.gait import Gait
from gmc_bench.studies.gait_figure import plot_gait


def walk(frequency, joints=8):
    time = (np.arange(250) + 1) * 0.02
    shifts = np.arange(joints) * 0.4
    angles = 0.3 * np.sin(2 * np.pi * frequency * time[:, None] + shifts)
    contact = np.column_stack([np.zeros(250), angles[:, 0] > 0, angles[:, 1] > 0.1])
    return Gait(
        body="made", limbs=("torso/0", "limb/1", "limb/2"),
        joints=tuple(f"limbx/{joint}" for joint in range(joints)),
        contact=contact.astype(np.bool_), force=100.0 * contact, angles=angles,
        speed=np.ones(250), episode_return=1.0, ended=None, control_dt=0.02,
    )  # fmt: skip


@pytest.mark.slow
def test_the_same_gaits_give_the_same_bytes_and_others_do_not(tmp_path):
    gaits = [("recmorph", walk(1.5)), ("mlp $1$", walk(2.0, joints=3))]
    for name in ("a", "b"):
        plot_gait(gaits, tmp_path / f"{name}.png")
    plot_gait(gaits[:1], tmp_path / "one.png")
    first = (tmp_path / "a.png").read_bytes()
    assert first == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as two, Image.open(tmp_path / "one.png") as one:
        assert two.size[0] > 1.7 * one.size[0]
        assert np.asarray(two).std() > 20
    plot_gait([gaits[0], ("mlp $1$", walk(2.1, joints=3))], tmp_path / "b.png")
    assert first != (tmp_path / "b.png").read_bytes()


def test_a_body_that_never_touches_the_ground_is_drawn_too(tmp_path):
    still = walk(1.0)
    still.contact[:] = False
    still.angles[:] = 0.0
    plot_gait([("none", still)], tmp_path / "a.png", start=0.5, seconds=1.0)
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(ConfigError, match="without a gait"):
        plot_gait([], tmp_path / "a.png")
    with pytest.raises(ConfigError, match="settling time of 9"):
        plot_gait([("a", walk(1.0))], tmp_path / "a.png", start=9.0)
    assert list(tmp_path.iterdir()) == []
