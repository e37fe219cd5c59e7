"""Signatures beside records: whose they are, what they refuse, and files of minisign itself."""

import math
import stat
from pathlib import Path

import minisign
import pytest

from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.records.signature import (
    SIGNERS_NAME,
    Signers,
    make_key,
    read_signers,
    sign,
    signature_file,
    signer_of,
)
from gmc_bench.records.store import write_record
from tests.support.records import make_record

PUBLISHED_KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
PUBLISHED_SIGNATURE = b"""untrusted comment: signature from minisign secret key
RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=
trusted comment: timestamp:1555779966\tfile:test
QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==
"""
"""Of the text `test`, from minisign's own documentation."""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "record.json"
    write_record(path, make_record())
    return path


def no_password() -> str:
    raise AssertionError("this key has no password")


def test_a_signature_says_who_made_it_and_is_the_same_again(record: Path, tmp_path: Path) -> None:
    key = tmp_path / "keys" / "mine.key"
    signers = Signers(keys={"other": PUBLISHED_KEY, "jane": make_key(key, "")})
    first = sign(record, key, no_password).read_bytes()
    assert signature_file(record) == record.with_name("record.json.minisig")
    assert signer_of(record, signers) == "jane"
    assert sign(record, key, no_password).read_bytes() == first
    assert (
        minisign.PublicKey.from_file(key.with_suffix(".pub")).to_base64().decode()
        in (signers.keys["jane"])
    )


def test_minisigns_own_files_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "test"
    file.write_text("test")
    signature_file(file).write_bytes(PUBLISHED_SIGNATURE)
    assert signer_of(file, Signers(keys={"frank": PUBLISHED_KEY})) == "frank"
    file.write_text("text")
    with pytest.raises(RecordError, match="by the key of frank: one of the two was changed"):
        signer_of(file, Signers(keys={"frank": PUBLISHED_KEY}))


def test_a_key_with_a_password_asks_for_it_and_is_its_owners_alone(
    record: Path, tmp_path: Path
) -> None:
    key = tmp_path / "mine.key"
    public = make_key(key, "right")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="wrong password"):
        sign(record, key, lambda: "wrong")
    assert not signature_file(record).exists()
    sign(record, key, lambda: "right")
    assert signer_of(record, Signers(keys={"jane": public})) == "jane"
    with pytest.raises(ConfigError, match=r"mine.pub, which is there already; give another"):
        make_key(key, "")
    key.with_suffix(".pub").unlink()
    with pytest.raises(ConfigError, match="exists already"):
        make_key(key, "")
    with pytest.raises(ConfigError, match=r"new.pub, which is the key itself; give another --key"):
        make_key(tmp_path / "new.pub", "")
    assert not (tmp_path / "new.pub").exists()


def test_a_change_behind_the_untrusted_comment_is_noticed(record: Path, tmp_path: Path) -> None:
    signers = Signers(keys={"jane": make_key(tmp_path / "mine.key", "")})
    path = sign(record, tmp_path / "mine.key", no_password)
    data = path.read_bytes()
    signed = data.index(b"\n")  # nobody vouches for the untrusted comment before it
    path.write_bytes(b"untrusted comment: another" + data[signed:])
    assert signer_of(record, signers) == "jane"
    for place in range(signed, len(data), 5):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(RecordError) as caught:
            signer_of(record, signers)
        assert "\n" not in str(caught.value)


def test_keys_that_do_not_count(record: Path, tmp_path: Path) -> None:
    public = make_key(tmp_path / "mine.key", "")
    sign(record, tmp_path / "mine.key", no_password)
    with pytest.raises(RecordError, match="does not count for it by signers"):
        signer_of(record, Signers(keys={"frank": PUBLISHED_KEY}))
    given_up = Signers(keys={"jane": public}, until={"jane": 140})
    assert signer_of(record, given_up, 140) == "jane"
    for line in (141, math.inf):
        with pytest.raises(RecordError, match="does not count for it"):
            signer_of(record, given_up, line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("keys: {jane: RWQ}", "keys.jane"),
        (f"keys: {{../jane: {PUBLISHED_KEY}}}", "keys"),
        ("required_from: yes", "required_from"),
        ("required: 1", "'required' is invalid"),
        (f"keys: {{jane: {PUBLISHED_KEY}}}\nuntil: {{jnae: 1}}", "names jnae, which 'keys' does"),
        ("- jane", "must hold 'key: value' settings"),
    ],
)
def test_a_list_of_signers_that_does_not_hold(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / SIGNERS_NAME).write_text(text)
    with pytest.raises(ConfigError, match="signers") as caught:
        read_signers(tmp_path)
    assert reason in str(caught.value)


def test_keys_that_are_none(record: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        sign(record, tmp_path / "absent", no_password)
    (tmp_path / "text").write_text("no key")
    with pytest.raises(ConfigError, match="cannot be used as minisign's secret key"):
        sign(record, tmp_path / "text", no_password)
