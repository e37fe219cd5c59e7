import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gmc_bench.bodies.mjcf import parse_mjcf
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import data_dir, imported_sets, load_set, store_set
from gmc_bench.core.config import json_digest
from gmc_bench.core.errors import MorphologySetError, StorageError


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """The folder in which sets are stored."""
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))
    return tmp_path / "morphologies"


@pytest.fixture
def bodies(tiny_body):
    first = replace(parse_mjcf(tiny_body, "a/../b"), symmetric_limbs=((1, 2),))
    second = parse_mjcf(tiny_body.replace('"250"', '"300"'), "second")
    return MorphologySet(
        id="some-set",
        splits={"train": (first, second), "test": (first,)},
        source="Made for a test.",
        licence="MIT",
        notes=("a note",),
    )


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_is_saved_is_loaded(bodies, home):
    folder = store_set(bodies)
    assert folder == home / "some-set" / bodies.digest
    assert load_set("some-set") == bodies
    assert imported_sets() == ["some-set"]
    # The odd body name did not leave the folder.
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "test-0000.xml",
        "train-0000.xml",
        "train-0001.xml",
    ]


def test_slots_that_a_file_does_not_tell_are_kept(bodies):
    """Neither names (`limbx`, `limby`) nor the order of joints need be those of the slots."""
    body = bodies.split("train")[0]
    limbs = tuple(
        replace(
            limb,
            joints=tuple(
                replace(joint, slot=4 - joint.slot, name=f"limbx {joint.name}")
                for joint in limb.joints
            ),
        )
        for limb in body.limbs
    )
    motors = tuple(replace(motor, joint=f"limbx {motor.joint}") for motor in body.actuators)
    moved = replace(body, name="moved", limbs=limbs, actuators=motors)
    found = replace(bodies, splits={"train": (body, moved), "test": (moved,)})
    folder = store_set(found)
    assert load_set("some-set") == found
    rows = json.loads((folder / "manifest.json").read_text())["splits"]["train"]
    assert "slots" not in rows[0]
    assert set(rows[1]["slots"].values()) == {3, 4}


@pytest.mark.parametrize("name", ['a="nan"', "a='nan'", "a='inf\" nan", "a\t=\n<include/>&quot;"])
def test_names_that_look_like_what_is_refused_are_kept(bodies, name):
    body = bodies.split("train")[0]
    limbs = tuple(replace(limb, name=f"{limb.name}{name}") for limb in body.limbs)
    renamed = replace(body, name=name.split()[0], limbs=limbs)
    found = replace(bodies, splits={"train": (renamed,), "test": (renamed,)})
    store_set(found)
    assert load_set("some-set") == found


def test_what_cannot_be_read_back_is_not_stored(bodies, home):
    body = bodies.split("train")[1]
    tiny = replace(body, actuators=tuple(replace(motor, gear=1e-320) for motor in body.actuators))
    with pytest.raises(
        MorphologySetError, match=r"read back from files \(body 'second' is refused"
    ):
        store_set(replace(bodies, splits={"train": (tiny,), "test": (body,)}))
    assert _files(home) == {}
    assert imported_sets() == []


def test_saving_again_changes_nothing(bodies, home):
    store_set(bodies)
    before = _files(home)
    store_set(bodies)
    assert _files(home) == before


def test_another_content_becomes_current_and_the_old_one_stays(bodies, home):
    store_set(bodies)
    changed = replace(bodies, splits={**bodies.splits, "test": bodies.splits["train"][1:]})
    store_set(changed)
    assert load_set("some-set") == changed
    assert (home / "some-set" / bodies.digest / "manifest.json").is_file()
    store_set(bodies)
    assert load_set("some-set") == bodies


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "train-0000.xml").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text("{}"),
        lambda folder: _edit(folder / "train-0001.xml", '"300.0"', '"301.0"'),
        lambda folder: _edit(folder / "train-0001.xml", '"300.0"', '"300.00000000001"'),
        lambda folder: _edit(folder / "manifest.json", '"second"', '"renamed"'),
        lambda folder: _edit(folder / "manifest.json", '"licence": "', '"licence": "not '),
        lambda folder: _edit(folder / "manifest.json", '"format": 1', '"format": 2'),
        lambda folder: _edit(folder / "manifest.json", '"id": "some-set"', '"id": "other"'),
        lambda folder: (folder.parent / "current").write_text("0" * 64),
        lambda folder: (folder.parent / "current").write_bytes(b"\xff"),
        lambda folder: (folder.parent / "current").write_text(f"{folder.name}\n{folder.name}\n"),
    ],
)
def test_damage_is_found_and_repaired_by_saving_again(bodies, damage):
    damage(store_set(bodies))
    with pytest.raises(MorphologySetError, match=r"damaged .*re-import it with") as error:
        load_set("some-set")
    assert "\n" not in str(error.value)
    store_set(bodies)
    assert load_set("some-set") == bodies


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("symmetric_limbs", [[float("inf"), 1]]),
        ("symmetric_limbs", json.loads("[" * 700 + "]" * 700)),
        ("file", "../train-0000.xml"),
        ("file", "/dev/zero"),
        ("file", "pipe.xml"),
        ("file", 3),
    ],
)
def test_a_manifest_that_was_changed_with_its_check_is_refused(bodies, name, value):
    folder = store_set(bodies)
    os.mkfifo(folder / "pipe.xml")
    (folder.parent / "train-0000.xml").write_bytes((folder / "train-0000.xml").read_bytes())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["splits"]["train"][0][name] = value
    del manifest["check"]
    text = json.dumps({**manifest, "check": json_digest(manifest)})
    (folder / "manifest.json").write_text(text)
    with pytest.raises(MorphologySetError, match=r"damaged .*re-import it with"):
        load_set("some-set")


def test_a_manifest_that_is_nested_too_deeply_to_read_is_refused(bodies):
    (store_set(bodies) / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(MorphologySetError, match=r"damaged .*RecursionError.*re-import it with"):
        load_set("some-set")


def test_sets_of_before_there_were_digests_of_files_load(bodies):
    path = store_set(bodies) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["check"]
    for row in (row for rows in manifest["splits"].values() for row in rows):
        del row["sha256"]
    path.write_text(json.dumps(manifest))
    assert load_set("some-set") == bodies
    _edit(path.parent / "train-0001.xml", '"300.0"', '"301.0"')
    with pytest.raises(MorphologySetError, match="body 'second' does not match its hash"):
        load_set("some-set")


def test_a_set_under_the_id_of_another_is_not_taken_for_it(bodies, home):
    store_set(bodies)
    (home / "some-set").rename(home / "other-set")
    with pytest.raises(MorphologySetError, match=r"'other-set' .* does not match its hash"):
        load_set("other-set")


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_changed_notes_are_stored(bodies):
    store_set(bodies)
    store_set(replace(bodies, notes=("another note",)))
    assert load_set("some-set").notes == ("another note",)


def test_unknown_set_says_how_to_import():
    assert imported_sets() == []
    with pytest.raises(MorphologySetError, match="gmc-bench morphologies import other-set PATH"):
        load_set("other-set")


@pytest.mark.parametrize("set_id", ["", "../up", "a/b", "Upper", "-dash", "x" * 65])
def test_ids_that_are_no_folder_names_are_refused(bodies, set_id):
    with pytest.raises(MorphologySetError, match="cannot be the id"):
        store_set(replace(bodies, id=set_id))
    with pytest.raises(MorphologySetError, match="cannot be the id"):
        load_set(set_id)


@pytest.mark.parametrize("failing", ["write_text", "rename", "replace"])
def test_a_full_disk_leaves_the_stored_sets_as_they_were(bodies, home, monkeypatch, failing):
    store_set(bodies)
    before = _files(home)
    changed = replace(bodies, splits={**bodies.splits, "test": bodies.splits["train"][1:]})

    def no_space(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, failing, no_space)
        with pytest.raises(StorageError, match=r"No space left on device.*GMC_BENCH_DATA"):
            store_set(changed)

    after = _files(home)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if "/." in name]  # no half-written leftovers
    assert load_set("some-set") == bodies


def test_a_file_in_the_way_is_a_storage_error(bodies, home):
    home.write_text("not a folder")
    with pytest.raises(StorageError, match="cannot store the set 'some-set'"):
        store_set(bodies)
    with pytest.raises(MorphologySetError, match="not imported"):
        load_set("some-set")


def test_default_folder_belongs_to_the_user(monkeypatch):
    monkeypatch.delenv("GMC_BENCH_DATA")
    assert data_dir().name == "gmc-bench"
    assert data_dir().is_absolute()


def test_manifest_is_plain_json(bodies):
    folder = store_set(bodies)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["digest"] == bodies.digest
    assert manifest["splits"]["train"][0] == {
        "name": "a/../b",
        "file": "train-0000.xml",
        "sha256": hashlib.sha256((folder / "train-0000.xml").read_bytes()).hexdigest(),
        "digest": bodies.split("train")[0].digest,
        "symmetric_limbs": [[1, 2]],
    }
