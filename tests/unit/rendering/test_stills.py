"""One file per body, found by its content, drawn once."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gmc_bench.rendering.stills import SHEET, write_stills
from gmc_bench.testing.morphologies import biped, chain, star

pytestmark = pytest.mark.usefixtures("drawing")

SIZE = (64, 80)


def test_files_carry_the_digest_and_equal_bodies_share_one(tmp_path):
    twin = replace(biped(), name="twin")
    seen = []
    bodies = (biped(), twin, star(4))
    report = write_stills(bodies, tmp_path / "a", SIZE, on_body=lambda: seen.append(1))
    names = {item.name for item in (tmp_path / "a").iterdir()}
    assert names == {f"{biped().digest}.png", f"{star(4).digest}.png", SHEET}
    assert (report.drawn, report.kept, len(seen)) == (2, 1, 3)
    with Image.open(tmp_path / "a" / f"{biped().digest}.png") as image:
        assert image.size == SIZE
    with Image.open(report.sheet) as sheet:
        assert np.asarray(sheet).std() > 10


def test_the_same_bodies_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_stills((biped(), star(4)), tmp_path / name, SIZE)
    for item in (tmp_path / "a").iterdir():
        assert item.read_bytes() == (tmp_path / "b" / item.name).read_bytes()


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
