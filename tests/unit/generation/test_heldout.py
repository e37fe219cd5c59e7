"""Held-out sets: a secret that is committed to decides the bodies, and anybody can check it."""

import hashlib
import json
from dataclasses import replace

import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.cli.main import main
from gmc_bench.core.errors import ConfigError, UnknownNameError
from gmc_bench.generation import heldout
from gmc_bench.generation.heldout import HELD_OUT, HeldOutSet, Secret, draw_secret, reveal
from gmc_bench.generation.released import RELEASED, build_released

SECRET = Secret(seed="0123456789abcdef" * 2, salt="fedcba9876543210" * 2)
TINY = HeldOutSet(
    id="gmc-tiny-heldout-v1",
    commitment=SECRET.commitment,
    base="gmc-unimal-mini-v2",
    test=5,
    secret=None,
)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("GMC_BENCH_DATA", str(tmp_path))
    monkeypatch.setitem(heldout.HELD_OUT, TINY.id, TINY)
    return tmp_path


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "secret.json"
    path.write_text(json.dumps({"seed": SECRET.seed, "salt": SECRET.salt}))
    return path


def test_commitments_are_hashes_whose_secret_is_in_no_released_file():
    text = f"{SECRET.seed}:{SECRET.salt}".encode()
    assert SECRET.commitment == hashlib.sha256(text).hexdigest()
    for held in HELD_OUT.values():
        assert len(bytes.fromhex(held.commitment)) == 32
        assert RELEASED[held.base].evolution is not None
        assert held.secret is None  # once one is told, compare its commitment here
    drawn = [draw_secret() for _ in range(2)]
    assert drawn[0].seed != drawn[1].seed
    assert drawn[0].salt != drawn[1].salt


@pytest.mark.parametrize("word", ["0" * 31, "AB" * 16, "g" * 32, "0" * 32 + "\n", 7, None])
@pytest.mark.parametrize("name", ["seed", "salt"])
def test_secrets_are_at_least_32_lower_case_digits(name, word):
    with pytest.raises(ConfigError, match=f"the {name} of a held-out set must be at least 32"):
        replace(SECRET, **{name: word})
    assert replace(SECRET, **{name: "0" * 32})


def test_the_secret_decides_new_bodies(file, capsys):
    assert main(["morphologies", "reveal", TINY.id, "--secret", str(file)]) == 0
    out = capsys.readouterr().out
    assert f"commitment  {SECRET.commitment}, kept by this secret" in out
    bodies, base = load_morphologies(TINY.id), build_released(TINY.base)
    assert bodies.digest[:12] in out
    assert bodies.split("train") == base.split("train")
    digests = {body.digest for body in bodies.split("test")}
    assert len(digests) == 5
    assert not digests & {b.digest for members in base.splits.values() for b in members}
    other = replace(SECRET, seed="ab" * 16)
    assert heldout.grow_held_out(TINY, other).digest != bodies.digest


def test_a_secret_gives_the_same_bodies_for_ever():
    """A commitment to a secret is one to bodies only as long as nothing between the two changes."""
    bodies = heldout.grow_held_out(TINY, SECRET)
    assert [body.name for body in bodies.split("test")] == [f"heldout-0000{k}" for k in range(1, 6)]
    assert bodies.digest == "19556c97820217dcd9884b68160def0377551d2f2529bc5cbec977b7f3ffd12a"


def test_bodies_that_are_there_already_are_left_out(monkeypatch):
    base, grown = build_released(TINY.base), heldout.grow_held_out(TINY, SECRET).split("test")
    again = replace(grown[0], name="again")
    drawn = [base.split("test")[0], grown[0], again, base.split("train")[1], *grown[1:]]
    monkeypatch.setattr(heldout, "_candidates", lambda held, secret: iter(drawn))
    assert heldout.grow_held_out(TINY, SECRET).split("test") == grown


def test_a_revealed_secret_needs_no_file(monkeypatch):
    monkeypatch.setitem(heldout.HELD_OUT, TINY.id, replace(TINY, secret=SECRET))
    assert len(reveal(TINY.id).bodies.split("test")) == 5


def test_a_secret_of_a_release_must_be_the_one_that_was_committed_to(monkeypatch):
    row = {"commitment": TINY.commitment, "base": TINY.base, "test": TINY.test, "secret": None}
    assert heldout._held_out(TINY.id, row) == TINY
    for salt, refused in ((SECRET.salt, False), ("0" * 32, True)):
        told = {**row, "secret": {"seed": SECRET.seed, "salt": salt}}
        held = heldout._held_out(TINY.id, told)
        assert held.secret == replace(SECRET, salt=salt)
        monkeypatch.setitem(heldout.HELD_OUT, TINY.id, held)
        if refused:
            with pytest.raises(ConfigError, match="this is not the secret of 'gmc-tiny-heldout"):
                reveal(TINY.id)
        else:
            assert reveal(TINY.id).commitment == TINY.commitment


def test_another_secret_or_none_is_refused(file, tmp_path):
    with pytest.raises(ConfigError, match=f"not revealed yet .commitment {TINY.commitment}"):
        reveal(TINY.id)
    file.write_text(json.dumps({"seed": SECRET.seed, "salt": "0" * 32}))
    with pytest.raises(ConfigError, match="this is not the secret of 'gmc-tiny-heldout-v1'"):
        reveal(TINY.id, file)
    wrong = json.dumps({"seed": 7, "salt": "0" * 32})
    for content in ("{", "[]", "[" * 100_000, wrong, '{"seed": "7"}'):
        file.write_text(content)
        with pytest.raises(ConfigError, match=r"holds no secret|hexadecimal digits, got"):
            reveal(TINY.id, file)
    with pytest.raises(ConfigError, match=r"cannot read the secret .*none\.json: No such file"):
        reveal(TINY.id, tmp_path / "none.json")
    with pytest.raises(UnknownNameError, match="unknown held-out set 'gmc-tiny'"):
        reveal("gmc-tiny", file)
