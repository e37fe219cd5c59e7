"""Files are read up to a size, and lists of files lead nowhere else."""

import os
from pathlib import Path

import pytest

from gmc_bench.core import files
from gmc_bench.core.config import load_yaml
from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.core.files import listed_file, read_limited
from gmc_bench.records.ledger import read_ledger
from gmc_bench.records.store import read_record


@pytest.mark.parametrize(
    ("read", "error"),
    [(load_yaml, ConfigError), (read_record, RecordError), (read_ledger, RecordError)],
)
def test_a_file_that_is_too_large_is_refused_in_one_sentence(tmp_path, read, error):
    path = tmp_path / "file.json"
    with path.open("wb") as file:
        file.truncate(files.MOST_BYTES + 1)
    with pytest.raises(error, match=r"cannot read .*file\.json: more than 64 MiB") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_what_states_no_size_is_read_up_to_the_same_size(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "MOST_BYTES", 3 * 2**20)
    with pytest.raises(OSError, match="more than 3 MiB"):
        read_limited(Path("/dev/zero"))
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * 2**20))
    assert len(read_limited(path)) == 3 * 2**20


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/a.xml", "b/a.xml", "../a.xml", "a.json", 3, None]
)
def test_a_list_names_files_of_its_folder_alone(tmp_path, name):
    with pytest.raises(ValueError, match=r"is no name of a file \.xml"):
        listed_file(tmp_path, name, ".xml")


def test_a_listed_file_is_a_file(tmp_path):
    (tmp_path / "my split-0.xml").write_text("")
    assert listed_file(tmp_path, "my split-0.xml", ".xml") == tmp_path / "my split-0.xml"
    (tmp_path / "link.xml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.xml")
    for name in ("link.xml", "pipe.xml"):
        with pytest.raises(ValueError, match=f"{name} is no regular file"):
            listed_file(tmp_path, name, ".xml")
    with pytest.raises(FileNotFoundError):
        read_limited(listed_file(tmp_path, "absent.xml", ".xml"))
