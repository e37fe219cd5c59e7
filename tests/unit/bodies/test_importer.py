import json
from dataclasses import replace

import pytest

from gmc_bench.bodies import importer
from gmc_bench.bodies.importer import (
    PUBLISHED,
    ImportProblemsError,
    import_set,
    read_public_layout,
)
from gmc_bench.bodies.store import imported_sets, load_set
from gmc_bench.core.errors import MorphologySetError

FACTS = {"num_limbs": 2, "dof": 3, "symmetric_limbs": [[0, 1]]}


@pytest.fixture(autouse=True)
def _own_data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path / "data"))


@pytest.fixture
def layout(tmp_path, tiny_body):
    """A valid set: train a, b (another gear), test c (the same body as a)."""
    folder = tmp_path / "layout"
    tiny_body = tiny_body.replace('pos="0 0 0.5"', 'pos="0 0 0.3"')
    bodies = {"train/b": tiny_body.replace('"250"', '"300"'), "train/a": tiny_body}
    for place, text in {**bodies, "test/c": tiny_body}.items():
        split, name = place.split("/")
        for part, suffix, content in (
            ("xml", ".xml", text),
            ("metadata", ".json", json.dumps(FACTS)),
        ):
            (folder / split / part).mkdir(parents=True, exist_ok=True)
            (folder / split / part / (name + suffix)).write_text(content)
    return folder


def test_import_stores_the_sorted_set_and_reports_repeats(layout):
    for name in ("train/xml/._a.xml", "train/metadata/._a.json"):  # of macOS
        (layout / name).write_bytes(b"\0\5\x16\7\xff")
    report = import_set("two-bodies", layout)

    assert [body.name for body in report.bodies.split("train")] == ["a", "b"]
    assert report.bodies.split("train")[0].symmetric_limbs == ((1, 2),)
    assert report.bodies.seen_in_train == {"c"}
    assert report.bodies.notes == ("test bodies that are also train bodies: c",)
    assert load_set("two-bodies") == report.bodies
    assert report.bodies.source == "Imported from a folder named 'layout'."
    assert report.bodies.licence == "unknown"
    assert report.folder.name == report.bodies.digest
    assert f"hash {report.bodies.digest[:12]}" in report.text
    assert report.text.endswith(f"kept in  {report.folder}")


def test_bodies_that_a_split_repeats_are_noted_and_symmetry_may_be_left_out(layout):
    twin = layout / "train/xml/b.xml"
    twin.write_text(twin.read_text().replace('"300"', '"250"'))
    plain = {key: FACTS[key] for key in ("num_limbs", "dof")}
    (layout / "train/metadata/b.json").write_text(json.dumps(plain))
    other = layout / "test/xml/c.xml"
    other.write_text(other.read_text().replace('"250"', '"300"'))
    bodies = read_public_layout("two-bodies", layout)
    assert bodies.notes == ("train: a = b",)
    assert [body.symmetric_limbs for body in bodies.split("train")] == [((1, 2),), ()]


def test_published_set_has_the_published_numbers(published_dir):
    report = import_set("unimals_100", published_dir)

    assert {split: len(members) for split, members in report.bodies.splits.items()} == {
        "train": 100,
        "test": 102,
    }
    digests = {
        split: {body.digest for body in members} for split, members in report.bodies.splits.items()
    }
    assert {split: len(found) for split, found in digests.items()} == {"train": 93, "test": 90}
    assert len(digests["train"] | digests["test"]) == 179
    assert report.bodies.seen_in_train == {
        "floor-5506-12-12-01-15-33-01",
        "floor-5506-12-14-01-15-22-01",
        "floor-5506-2-0-01-11-27-44",
        "floor-5506-4-14-01-14-32-47",
        "floor-5506-9-7-01-13-40-02",
    }
    repeats = {split: report.bodies.duplicates(split) for split in report.bodies.splits}
    assert sum(len(group) - 1 for group in repeats["train"]) == 7
    assert sum(len(group) - 1 for group in repeats["test"]) == 12
    assert len(digests["test"] - digests["train"]) == 86
    assert load_set("unimals_100").digest == PUBLISHED["unimals_100"].digest


def test_other_bodies_cannot_take_a_published_or_reserved_name(layout):
    with pytest.raises(ImportProblemsError, match="not those published as 'unimals_100'"):
        import_set("unimals_100", layout)
    with pytest.raises(MorphologySetError, match="reserved for generated sets"):
        import_set("gmc-unimal-mini-v1", layout)
    assert imported_sets() == []


def test_all_problems_are_collected_and_nothing_is_stored(layout, tiny_body):
    (layout / "train/xml/a.xml").write_text(tiny_body.replace("</mujoco>", ""))
    (layout / "train/metadata/b.json").write_text(json.dumps({**FACTS, "dof": 4}))
    (layout / "test/metadata/c.json").unlink()

    with pytest.raises(ImportProblemsError) as error:
        import_set("broken", layout)

    problems = error.value.problems
    assert len(problems) == 3
    assert "a.xml" in problems[0]
    assert "is refused by MuJoCo" in problems[0]
    assert "b.xml" in problems[1]
    assert "dof = 4, but the body has 3" in problems[1]
    assert problems[2].endswith("metadata/c.json")
    assert "c.xml has no" in problems[2]
    assert str(error.value).startswith(f"cannot import {layout}: {problems[0]}")
    assert str(error.value).endswith("and 2 more problems")
    assert imported_sets() == []


def test_one_problem_is_not_counted(layout):
    (layout / "test/metadata/c.json").unlink()
    with pytest.raises(ImportProblemsError) as error:
        read_public_layout("broken", layout)
    assert str(error.value) == f"cannot import {layout}: {error.value.problems[0]}"
    (layout / "train/xml/a.xml").unlink()
    with pytest.raises(ImportProblemsError) as error:
        read_public_layout("broken", layout)
    assert str(error.value).endswith("and 1 more problem")
    train = layout / "train"
    lonely = f"{train / 'metadata/a.json'} has no {train / 'xml/a.xml'}"
    assert error.value.problems[0] == lonely


def test_missing_folders_and_empty_splits(layout, tmp_path):
    with pytest.raises(ImportProblemsError) as error:
        read_public_layout("none", tmp_path / "nowhere")
    assert len(error.value.problems) == 4
    for file in layout.glob("test/*/c.*"):
        file.unlink()
    with pytest.raises(ImportProblemsError, match=r"holds no \.xml files"):
        read_public_layout("none", layout)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ("[]", "its metadata is a list"),
        ("{", "its metadata cannot be read"),
        ("[" * 100_000, "its metadata cannot be read"),
        (json.dumps({**FACTS, "num_limbs": 3}), "num_limbs = 3, but the body has 2"),
        (json.dumps({"dof": 3}), "num_limbs = None, but the body has 2"),
        (json.dumps({**FACTS, "symmetric_limbs": [[0, 7]]}), r"symmetric_limbs = \[\[0, 7\]\]"),
        (json.dumps({**FACTS, "symmetric_limbs": [[0]]}), "expected pairs"),
        (json.dumps({**FACTS, "symmetric_limbs": 3}), "expected pairs"),
    ],
)
def test_metadata_must_be_valid_and_agree(layout, facts, reason):
    (layout / "test/metadata/c.json").write_text(facts)
    with pytest.raises(ImportProblemsError, match=reason):
        read_public_layout("broken", layout)


@pytest.mark.parametrize("file", ["xml/c.xml", "metadata/c.json"])
def test_devices_and_pipes_are_not_waited_for(layout, file):
    (layout / "test" / file).unlink()
    (layout / "test" / file).symlink_to("/dev/null")
    with pytest.raises(ImportProblemsError, match=rf"{file} is not a regular file; expected a"):
        read_public_layout("broken", layout)


def test_metadata_may_begin_with_a_byte_order_mark(layout):
    before = read_public_layout("marked", layout)
    (layout / "test/metadata/c.json").write_text("\ufeff" + json.dumps(FACTS), encoding="utf-8")
    assert read_public_layout("marked", layout) == before


def test_every_hinge_needs_a_motor(layout, tiny_body):
    motor = '<motor name="limby/1" joint="limby/1" gear="250"/>'
    (layout / "test/xml/c.xml").write_text(tiny_body.replace(motor, ""))
    with pytest.raises(ImportProblemsError, match="joint 'limby/1' has no motor"):
        read_public_layout("broken", layout)


def test_a_body_that_does_not_simulate_is_refused(layout, tiny_body):
    (layout / "test/xml/c.xml").write_text(tiny_body.replace('"250"', '"1e12"'))
    with pytest.raises(ImportProblemsError, match="does not simulate"):
        read_public_layout("broken", layout)


def test_published_content_is_recognised_by_its_hash(layout, monkeypatch):
    known = replace(PUBLISHED["unimals_100"], digest=read_public_layout("x", layout).digest)
    monkeypatch.setitem(importer.PUBLISHED, "unimals_100", known)
    bodies = import_set("unimals_100", layout).bodies
    assert (bodies.source, bodies.licence) == (known.source, known.licence)


@pytest.mark.parametrize(
    ("height", "reason"),
    [
        ("1", "lowest point 0.9 m above .* at z = 0.3 instead of 1"),
        ("0.15", "point 0.05 m above .* at z = 0.3 instead of 0.15"),
        ("0.19", "0.09 m above the ground"),
        ("0.41", "0.31 m"),
    ],
)
def test_bodies_that_start_too_high_or_too_low_are_refused(layout, height, reason):
    file = layout / "train" / "xml" / "a.xml"
    file.write_text(file.read_text().replace('pos="0 0 0.3"', f'pos="0 0 {height}"'))
    # The torso, whose radius is 0.1 m, reaches lower than its level limbs.
    with pytest.raises(ImportProblemsError, match=f"a.xml: body 'a' .*{reason}"):
        import_set("tall", layout)
