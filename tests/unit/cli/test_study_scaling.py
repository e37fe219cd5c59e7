"""The scaling study from the command line: options, limits, and what is not measured twice."""

import csv
import json
import math

import pytest

from gmc_bench.profiling.process import Limits, NotMeasured
from gmc_bench.records.environment import GitState
from gmc_bench.records.store import read_sealed, sealed
from gmc_bench.studies import scaling_study as work
from gmc_bench.studies.request import OPTIONS
from recmorph import SPEC

TINY = ("study", "scaling", "--method", "recmorph", "--seconds", 0.001)


@pytest.fixture
def measured(monkeypatch):
    """Measure in this process, and refuse everything from size 16 on; return what was asked."""
    asked = []

    def apart(measure, items, limits):
        for item in items:
            size = item.size
            asked.append((item.kind, size))
            if size >= 16:
                yield NotMeasured("more than 1 s")
                return
            yield {"act_mib": size / 8, "train_mib": size / 4, "table_mib": 0.5 * size}

    monkeypatch.setattr(work, "measure_in_process", apart)
    return asked


def rows(folder):
    with (folder / "table.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("argv", "tokens"),
    [
        (["8..64"], [8, 16, 32, 64]),
        (["6..20"], [6, 8, 16, 20]),
        (["5", 3, "8..16"], [3, 5, 8, 16]),
        (["7..7"], [7]),
    ],
)
def test_sizes_are_numbers_or_ranges(argv, tokens):
    assert work.ScalingRequest.make(["recmorph"], tokens=argv).tokens == tokens


def test_bodies_go_up_in_steps_of_three():
    found = work.ScalingRequest.make(["recmorph"], bodies=["1..10000"]).bodies
    assert found == [1, 3, 10, 30, 100, 300, 1000, 3000, 10000]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--tokens", "0"], "must be at least 1"),
        (["--tokens", "64..8"], "the smaller number first, got '64..8'"),
        (["--tokens", "1..2..3"], "must be numbers like 64 or 8..1024"),
        (["--tokens", "9" * 5000], "must be numbers like 64 or 8..1024, got '999"),
        (["--bodies", "many"], "must be numbers like 64 or 8..1024, got 'many'"),
        (["--part", "speed"], "--part must be among memory, bodies, time, got 'speed'"),
        (["--part", "bodies", "--tokens", "8"], "--tokens has no effect on --part bodies; leave"),
        (["--part", "time", "--bodies", "8"], "--bodies has no effect on --part time; leave it"),
        (["--max-gib", "-1"], "a positive number of GiB, got '-1'"),
        (["--max-seconds", "0"], "a positive number of seconds"),
        (["--method", "recmorf"], "unknown method 'recmorf'; did you mean 'recmorph'?"),
        (["--env-steps", "5"], "unknown option '--env-steps'"),
        (["--protocol", "short"], "has no protocol 'short'"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(gmc, argv, message):
    code, out, err = gmc("study", "scaling", *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["suite", "task", "seeds", "reuse", *OPTIONS])
def test_options_of_studies_that_train_are_refused(gmc, tmp_path, name):
    option = f"--{name.replace('_', '-')}"
    code, out, err = gmc(*TINY, option, 1, "--out", tmp_path / "s")
    assert (code, out) == (2, "")
    assert f"{option} is not for the study 'scaling', which trains nothing" in err
    assert not (tmp_path / "s").exists()


def test_its_options_are_not_for_other_studies(gmc):
    code, _, err = gmc("study", "components", "--max-gib", 2)
    assert code == 2
    assert "--max-gib is for the study 'scaling', got it for 'components'" in err


def test_it_is_in_the_list(gmc):
    assert "scaling" in gmc("study")[1]


def test_a_dry_run_measures_nothing(gmc, measured, tmp_path):
    code, out, _ = gmc(*TINY, "--bodies", 1, 5, "--dry-run", "--out", tmp_path / "s")
    assert code == 0
    assert "act-time" in out
    assert "1 5" in out
    assert measured == []
    assert not (tmp_path / "s").exists()


def test_what_is_refused_has_no_number_and_nothing_larger_is_tried(gmc, measured, tmp_path):
    folder = tmp_path / "s"
    code, out, _ = gmc(*TINY, "--part", "memory", "--tokens", "2..64", "--out", folder)
    assert code == 0
    assert [place for place in measured if place[1] >= 16] == [
        ("act-memory", 16), ("train-memory", 16),
    ]  # fmt: skip
    found = {(row["quantity"], row["size"]): row for row in rows(folder)}
    act = [found["act-memory/act_mib", str(2**k)] for k in range(1, 7)]
    assert [row["value"] for row in act] == ["0.25", "0.5", "1.0", "", "", ""]
    assert [row["not measured"] for row in act[3:]] == [
        "more than 1 s", "more than 1 s at 16", "more than 1 s at 16",
    ]  # fmt: skip
    page = (folder / "table.md").read_text()
    assert "not measured (more than 1 s at 16)" in page
    assert "Exponents over tokens" in out
    result, _ = read_sealed(folder / "study.json")
    assert result["setting"]["versions"].keys() >= {"torch", "mujoco"}
    assert result["setting"]["hardware"]["threads"] == 1
    assert len(result["cells"]) == 12


@pytest.mark.slow
def test_numbers_of_several_commits_are_of_none(gmc, measured, monkeypatch, tmp_path):
    argv = (*TINY, "--part", "memory", "--out", tmp_path / "s", "--tokens")
    states = []
    for commit, more in (("a", ()), ("a", ()), ("b", ()), ("b", (14,)), ("b", (14,)), ("a", (14,))):
        monkeypatch.setattr(work, "checkout", lambda commit=commit: GitState(commit, False))
        assert gmc(*argv, 4, 9, 12, *more, 15)[0] == 0
        content, _ = read_sealed(tmp_path / "s" / "study.json")
        states.append((content["git_commit"], content["git_dirty"]))
    # Whoever looks at a finished study again, as the third, has made none of its numbers.
    assert states == [*[("a", False)] * 3, *[("b", True)] * 3]
    found = {item["method"]: item["method_version"] for item in content["exponents"]}
    assert found == {"recmorph": SPEC.version}


@pytest.mark.slow
def test_a_finished_cell_is_not_measured_again(gmc, measured, tmp_path):
    argv = (*TINY, "--part", "memory", "--out", tmp_path / "s", "--tokens")
    gmc(*argv, 2, 8, 32)
    first = list(measured)
    for again in ((*argv, 2, 8, 32), ("study", "--resume", tmp_path / "s")):
        measured.clear()
        assert gmc(*again)[0] == 0
        assert measured == []
    gmc(*argv, 2, 4, 8, 16, 32, 64)
    # 32 was refused, so that 64 is; 16 has to be tried, and is refused on its own.
    assert [place for place in measured if place[0] == "act-memory"] == [
        ("act-memory", 4), ("act-memory", 16),
    ]  # fmt: skip
    assert ("act-memory", 32) in first


def test_a_cell_of_another_version_of_the_method_is_measured_again(gmc, measured, tmp_path):
    argv = (*TINY, "--part", "memory", "--out", tmp_path / "s", "--tokens", 2)
    gmc(*argv)
    path = tmp_path / "s" / "cells" / "act-memory_recmorph_2.json"
    content, _ = read_sealed(path)
    path.write_bytes(sealed({**content, "version": content["version"] + 1}))
    measured.clear()
    gmc(*argv)
    assert measured == [("act-memory", 2)]


def test_another_setting_wants_another_folder(gmc, measured, tmp_path):
    argv = ("--part", "memory", "--tokens", 2, "--out", tmp_path / "s")
    assert gmc(*TINY, *argv)[0] == 0
    code, _, err = gmc(*TINY, *argv, "--max-gib", 9)
    assert code == 2
    assert "was measured with another --max-gib (4" in err
    path = tmp_path / "s" / "scaling.json"
    content = json.loads(path.read_bytes())
    content.pop("digest")
    content["setting"]["versions"]["torch"] = "1.0"
    path.write_bytes(sealed(content))
    code, _, err = gmc(*TINY, *argv)
    assert code == 2
    assert "another versions" in err


def test_a_folder_with_something_else_is_left_alone(gmc, measured, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    code, _, err = gmc(*TINY, "--tokens", 2, "--out", tmp_path / "s")
    assert code == 2
    assert "already exists and is not empty" in err


def test_a_process_that_was_lost_is_started_again_when_the_study_goes_on(
    gmc, monkeypatch, tmp_path
):
    outcomes = [[NotMeasured("the process was ended from outside", lasting=False)]]

    def apart(measure, items, limits):
        yield from (
            outcomes.pop() if outcomes else ({"act_mib": 1.0, "train_mib": 1.0},) * len(items)
        )

    monkeypatch.setattr(work, "measure_in_process", apart)
    folder = tmp_path / "s"
    gmc(*TINY, "--part", "memory", "--tokens", 2, "--out", folder)
    assert {row["value"] for row in rows(folder)} == {"", "1.0"}  # the next one has a new process
    gmc("study", "--resume", folder)
    assert {row["value"] for row in rows(folder)} == {"1.0"}


@pytest.mark.slow
def test_a_real_measurement_ends_up_in_the_tables(gmc, tmp_path):
    folder = tmp_path / "s"
    argv = ("--part", "memory", "--tokens", 4, 8, 16, 32, 64, 128, "--out", folder)
    code, out, err = gmc(*TINY, *argv)
    assert code == 0, err
    exponent = next(line for line in out.splitlines() if line.startswith("recmorph"))
    assert 0.9 < float(exponent.split()[1]) < 1.1
    assert (folder / "tokens.png").read_bytes()[:4] == b"\x89PNG"
    assert all(float(row["value"]) > 0 for row in rows(folder))


@pytest.mark.parametrize(("gib", "limit"), [(0.5, 2**29), (1e300, math.inf)])
def test_limits_are_those_asked_for(gmc, monkeypatch, tmp_path, gib, limit):
    seen = []

    def apart(measure, items, limits):
        seen.append(limits)
        yield from ({"act_mib": 1.0, "train_mib": 1.0} for _ in items)

    monkeypatch.setattr(work, "measure_in_process", apart)
    argv = ("--part", "memory", "--tokens", 2, "--max-gib", gib, "--max-seconds", 7)
    gmc(*TINY, *argv, "--out", tmp_path / "s")
    assert seen == [Limits(limit, 7.0)]
