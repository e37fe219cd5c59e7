"""One file per body, found by its content, drawn once."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.stills import SHEET, _contact_sheet, draw_start, write_stills
from gmc_bench.tasks import TASKS
from tests.support.slow import slow_but

pytestmark = pytest.mark.usefixtures("drawing")

SIZE = (64, 80)


def test_files_carry_the_digest_and_equal_bodies_share_one(tmp_path):
    twin = replace(biped(), name="twin")
    seen = []
    bodies = (biped(), twin, star(4))
    report = write_stills(bodies, tmp_path / "a", SIZE, listener=seen.append)
    names = {item.name for item in (tmp_path / "a").iterdir()}
    assert names == {f"{biped().digest}.png", f"{star(4).digest}.png", SHEET}
    assert (report.drawn, report.kept) == (2, 1)
    assert [event.done for event in seen] == [1, 2, 3]
    with Image.open(tmp_path / "a" / f"{biped().digest}.png") as image:
        assert image.size == SIZE
    with Image.open(report.sheet) as sheet:
        assert np.asarray(sheet).std() > 10


@pytest.mark.slow
def test_the_same_bodies_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_stills((biped(), star(4)), tmp_path / name, SIZE)
    for item in (tmp_path / "a").iterdir():
        assert item.read_bytes() == (tmp_path / "b" / item.name).read_bytes()


@pytest.mark.slow
def test_what_is_there_is_kept_unless_it_is_broken_or_of_another_size(tmp_path):
    bodies = (biped(), chain(3), star(4))
    write_stills(bodies, tmp_path, SIZE)
    paths = [tmp_path / f"{body.digest}.png" for body in bodies]
    good = [path.read_bytes() for path in paths]
    Image.new("RGB", SIZE, "red").save(paths[0])  # somebody's own picture
    own = paths[0].read_bytes()
    paths[1].write_bytes(good[1][:200])
    report = write_stills(bodies, tmp_path, SIZE)
    assert (report.drawn, report.kept) == (1, 2)
    assert [path.read_bytes() for path in paths] == [own, *good[1:]]
    assert write_stills(bodies, tmp_path, (66, 66)).drawn == 3


def test_the_sheet_shows_bodies_row_by_row(tmp_path):
    """Somebody's own pictures in plain colours: 64 x 80 pixels become 102 x 128."""
    bodies = [replace(biped(), name=f"body-{place}") for place in range(4)]
    colors = [(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0)]
    paths = [tmp_path / f"{place}.png" for place in range(4)]
    for path, color in zip(paths, colors, strict=True):
        Image.new("RGB", SIZE, color).save(path)
    sheet = _contact_sheet(bodies, paths, SIZE)
    assert sheet.size == (6 + 3 * 108, 6 + 2 * 161)  # with gaps of 6, and 33 for names
    middles = [(6 + 108 * column + 51, 6 + 161 * row + 64) for row in (0, 1) for column in range(3)]
    assert [sheet.getpixel(place) for place in middles] == [*colors, *[(255, 255, 255)] * 2]
    one, other = (
        _contact_sheet([replace(biped(), name=name)], paths[:1], SIZE).tobytes()
        for name in ("\u00fc", "\u0436")
    )
    assert one != other


@pytest.mark.parametrize(
    "task", slow_but(["ft", "incline", "exploration", "obstacles", "vt"], "incline", "vt")
)
def test_a_body_is_drawn_where_a_task_begins(task, tmp_path):
    found = TASKS.get(f"unimal-{task}-v1")
    size = (160, 90)
    report = write_stills((biped(),), tmp_path, size, task=found, seed=2)
    path = tmp_path / f"{biped().digest}_{found.id}_2.png"
    assert {item.name for item in tmp_path.iterdir()} == {path.name, SHEET}
    with Image.open(path) as image:
        picture = np.asarray(image).astype(int)
    limbs = picture.max(axis=2) - picture.min(axis=2) > 90
    assert 10 < limbs.sum() < 1000
    rows, columns = np.nonzero(limbs)
    assert 10 < columns.mean() < 80  # with room for the ground before it
    assert 20 < rows.mean() < 80
    assert (report.drawn, report.kept) == (1, 0)


def test_another_seed_is_another_ground(tmp_path):
    task = TASKS.get("unimal-obstacles-v1")
    for seed in (2, 3, 3):
        report = write_stills((biped(),), tmp_path, (160, 90), task=task, seed=seed)
    assert (report.drawn, report.kept) == (0, 1)
    first, second = ((tmp_path / f"{biped().digest}_{task.id}_{seed}.png") for seed in (2, 3))
    assert first.read_bytes() != second.read_bytes()


def test_a_body_is_drawn_without_the_noise_of_a_start_state():
    task = TASKS.get("unimal-ft-v1")
    with Canvas(160, 90) as canvas:
        first, second = (draw_start(biped(), task, seed, canvas) for seed in (2, 3))
    np.testing.assert_array_equal(first, second)
