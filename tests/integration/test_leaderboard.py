"""From a run to a verified row of a leaderboard, and the ways to get there by cheating."""

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gmc_bench
from gmc_bench.bodies.store import DATA_VARIABLE
from gmc_bench.core.errors import CheckpointError
from gmc_bench.experiments import reuse as reusing
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.leaderboard.board import read_board
from gmc_bench.records.ledger import read_ledger
from gmc_bench.records.schema import RunRecord, TunedSettings
from gmc_bench.records.store import LEDGER_NAME, read_record, write_record
from gmc_bench.records.weights import LEADERBOARD
from gmc_bench.rendering.web.episodes import EpisodeKeeper
from gmc_bench.studies.request import Request
from gmc_bench.studies.study_run import StudyRun

MODES = [("train", "deterministic"), ("test", "deterministic")]


@pytest.fixture(scope="session")
def official_run(gmc, tmp_path_factory):
    """Make a run that follows the protocol `smoke`; tests must not change its folder."""
    path = tmp_path_factory.mktemp("official") / "run"
    gmc(
        "run", "--method", "recmorph", "--suite", "unimal", "--task", "ft",
        "--protocol", "smoke", "--morphologies", "tiny", "--threads", "1",
        "--checkpoint-interval", "60",
        "--out", path,
    )  # fmt: skip
    record = read_record(path / "record.json")
    assert record.official
    # As from a clean clone, whatever state the tests' own checkout is in.
    clean = {"git_commit": "0" * 40, "git_dirty": False}
    write_record(path / "record.json", record.model_copy(update=clean))
    return path


@dataclass(frozen=True)
class Desk:
    """A leaderboard and runs of its own."""

    root: Path
    here: Any

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def board(self) -> Path:
        return self.root / "board"

    def __call__(self, *argv, code=0):
        return self.here("leaderboard", *argv, "--records", self.board, code=code)

    def verify(self, *argv, code=0):
        return self("verify", *argv, "--runs", self.run, code=code).out

    def reseal(self, record: RunRecord) -> None:
        """Put a record with a digest that fits in place of the run's own."""
        write_record(self.run / "record.json", record)

    @property
    def verified(self) -> list[int]:
        found = read_board(self.board)
        return [item.record.seed for item in found.records if item.digest in found.verified]


@pytest.fixture
def desk(here, official_run, tmp_path):
    shutil.copytree(official_run, tmp_path / "run")
    return Desk(tmp_path, here)


def _raised(record: RunRecord, share: float, splits: tuple[str, ...] = ("train", "test")) -> Any:
    returns = []
    for item in record.returns:
        better = [
            episode.model_copy(
                update={"episode_return": episode.episode_return + share * abs(item.mean_return)}
            )
            for episode in item.episodes
        ]
        changes = {"episodes": tuple(better)} if item.split in splits else {}
        returns.append(item.model_copy(update=changes))
    return record.model_copy(update={"returns": tuple(returns)})


SMOKE = ("--protocol", "smoke", "--morphologies", "tiny", "--threads", "1")


@pytest.mark.slow
def test_a_study_takes_a_run_from_the_leaderboard(desk, tmp_path, monkeypatch):
    desk("add", desk.run)
    study = ("study", "representation", *SMOKE, "--seeds", 1)
    reuse = ("--reuse", desk.board)
    assert "finished" in desk.here(*study, *reuse, "--dry-run").err
    assert "finished" not in desk.here(*study, "--dry-run").err
    other = desk.here(*study, *reuse, "--env-steps", 4096, "--dry-run").err
    assert "finished" not in other  # another run
    with monkeypatch.context() as patch:
        patch.setattr(reusing, "version", lambda package: "3.16.0")
        assert "finished" not in desk.here(*study, *reuse, "--dry-run").err  # of another engine
    for registry in ("TASKS", "SUITES"):  # of another definition under the same id
        with monkeypatch.context() as patch:
            found = getattr(reusing, registry)
            changed = SimpleNamespace(get=lambda name, own=found: replace(own.get(name), title="x"))
            patch.setattr(reusing, registry, changed)
            assert "finished" not in desk.here(*study, *reuse, "--dry-run").err

    folder = tmp_path / "study"
    err = desk.here(*study, *reuse, "--out", folder).err
    assert f"1 of 1 runs are those of {desk.board}" in err
    taken = folder / "trained_ft_seed1"
    assert not (taken / "checkpoints").exists()  # nothing was trained
    assert (taken / "record.json").read_bytes() == (desk.run / "record.json").read_bytes()
    kept = json.loads((folder / "study.json").read_bytes())
    assert (kept["status"], kept["runs"][0]["record_digest"]) == (
        "complete", read_board(desk.board).records[0].digest,
    )  # fmt: skip
    assert kept["runs"][0]["numbers"]["robot_id_before"] > 0

    # The folder is that of a finished run; one that was killed on the way there is made again.
    argv = ("evaluate", taken, "--split", "test", "--json")
    found, own = (
        json.loads(desk.here("evaluate", run, *argv[2:]).out) for run in (taken, desk.run)
    )
    assert found.pop("run") != own.pop("run")
    assert found == own
    scored = tmp_path / "scored.json"
    scored.write_text(json.dumps({**own, "git_commit": "0" * 40, "git_dirty": False}))
    err = desk.here("leaderboard", "add", scored, "--records", tmp_path / "new", code=2).err
    assert "has no record of the policy that was scored" in err
    assert not (tmp_path / "new").exists()
    (taken / "record.json").unlink()
    (folder / "study.json").unlink()
    again = StudyRun.plan(
        Request.make("representation", ()),
        ExperimentSpec(suite="unimal", method="recmorph", protocol="smoke", bodies="tiny"),
        seeds=(1,), out=folder, reuse=desk.board,
    )  # fmt: skip
    again.resume()
    assert json.loads((folder / "study.json").read_bytes())["runs"] == kept["runs"]

    data = bytearray((taken / "policy.safetensors").read_bytes())
    data[-1] ^= 1
    (taken / "policy.safetensors").write_bytes(data)
    assert "policy.safetensors is damaged" in desk.here(*argv, code=2).err


@pytest.mark.slow
def test_a_sweep_takes_what_the_leaderboard_has_and_runs_the_rest(desk, tmp_path):
    desk("add", desk.run)
    argv = (
        "sweep", "--methods", "recmorph", "zero-action", "--suites", "unimal", "--tasks", "ft",
        *SMOKE, "--seeds", 1, "--jobs", 1, "--reuse",
    )  # fmt: skip
    err = desk.here(*argv, tmp_path, code=2).err
    assert f"{tmp_path} is no leaderboard" in err
    folder = tmp_path / "sweep"
    desk.here(*argv, desk.board, "--out", folder)
    records = {path.parent.name: read_record(path) for path in folder.glob("*/record.json")}
    assert records["recmorph"] == read_board(desk.board).records[0].record
    assert records["zero-action"].method == "zero-action"
    assert "checkpoints" not in [item.name for item in (folder / "recmorph").iterdir()]
    out = desk("add", folder / "recmorph").out
    assert out == f"left   {folder / 'recmorph'}: it was taken from a leaderboard\n"
    assert "reuse" in desk.here("sweep", "--resume", folder, "--reuse", desk.board, code=2).err


def test_from_a_run_to_a_verified_row(desk, tmp_path):
    folders = ("--out", tmp_path / "out")
    assert desk("add", desk.run).out.startswith("added  ")
    desk("build", *folders)
    page = next((tmp_path / "out").rglob("smoke-tiny.md"))
    before = page.read_text()

    # The weights are kept beside the record: the run's folder is not needed any more.
    shutil.rmtree(desk.run)
    out = desk.verify("--all")
    name = read_ledger(desk.board / LEDGER_NAME).entries[1].path
    assert out == f"verified  {name}: 4 episodes equal\n"
    assert desk.verified == [1]
    found = read_board(desk.board).verifications[0].verification
    assert [(part.split, part.mode) for part in found.parts] == MODES
    assert (found.comparison, found.first_difference) == ("exact", None)

    assert str(page) in desk("check", *folders, code=1).out
    desk("build", *folders)
    assert page.read_text() != before
    assert desk("check", *folders).out == ""
    index = tmp_path / "out" / "tables" / "README.md"
    ledger = read_ledger(desk.board / LEDGER_NAME)
    assert f"The ledger has 3 lines; the last one's SHA-256 is `{ledger.head}`." in (
        index.read_text()
    )
    assert "`weights/` holds the policies of 1 of the 1 records" in index.read_text()
    # Who verifies it again has changed nothing.
    for named in (desk.board / name, read_board(desk.board).records[0].digest[:12]):
        assert desk.verify(named) == f"verified  {desk.board / name}: 4 episodes equal\n"
    # Its own leaderboard has the weights, whichever folder of records is the default.
    elsewhere = desk.here("leaderboard", "verify", desk.board / name).out
    assert elsewhere == f"verified  {desk.board / name}: 4 episodes equal\n"
    asked = ("leaderboard", "verify", desk.board / name, "--records", tmp_path / "other")
    assert "no policy.safetensors with the weights" in desk.here(*asked, code=2).err
    assert read_ledger(desk.board / LEDGER_NAME) == ledger
    assert desk.verify("--all", "--unverified") == ""

    # Without its last line the row would be what it was before.
    path = desk.board / LEDGER_NAME
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    outdated = desk("check", *folders, code=1).out
    assert {str(index), str(page)} <= {line.split()[-1] for line in outdated.splitlines()}


@pytest.mark.slow
def test_only_what_the_rank_depends_on(desk):
    desk("add", desk.run)
    assert ": 2 episodes equal" in desk.verify("--all", "--ranked-only", "--jobs", "2")
    assert desk.verified == [1]
    parts = read_board(desk.board).verifications[0].verification.parts
    assert [(part.split, part.mode) for part in parts] == MODES[1:]


@pytest.mark.parametrize("argv", [("--all",), ("--all", "--ranked-only")])
def test_a_raised_return_is_found_and_named(desk, argv):
    honest = read_record(desk.run / "record.json")
    forged = _raised(honest, 0.05, splits=("test",))
    desk.reseal(forged)
    desk("add", desk.run)
    out = desk.verify(*argv, code=1)
    name = read_ledger(desk.board / LEDGER_NAME).entries[1].path
    assert out.startswith(f"FAILED  {name}: 2 of 2 episodes of test, deterministic differ; the fi")
    old, new = (
        next(item for item in record.returns if item.split == "test").episodes[0]
        for record in (forged, honest)
    )
    assert "the first is episode 1 of test body 'biped', deterministic: recorded return " in out
    assert f"{old.episode_return!r} after {old.length} steps ({old.ended}), found " in out
    assert out.endswith(f"found {new.episode_return!r} after {new.length} ({new.ended})\n")
    assert desk.verified == []
    # It stays on the record that it failed.
    verification = read_board(desk.board).verifications[0].verification
    assert not verification.passed
    assert verification.first_difference is not None
    assert verification.first_difference.found == new
    assert desk.verify(desk.run, code=1).startswith("FAILED  ")
    assert desk.verified == []


def test_one_changed_train_episode_is_found(desk):
    honest = read_record(desk.run / "record.json")
    desk.reseal(_raised(honest, 1e-12, splits=("train",)))
    out = desk.verify(desk.run, code=1)
    assert "2 of 2 episodes of train, deterministic differ; the first is episode 1 of train" in out
    assert not desk.board.exists()
    assert ": 2 episodes equal" in desk.verify(desk.run, "--ranked-only")


def test_a_folder_of_runs_is_verified_without_becoming_a_leaderboard(desk, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    out = desk.here("leaderboard", "verify", "--all", "--records", tmp_path).out
    assert out == "verified  run/record.json: 4 episodes equal\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_weights_of_another_run(desk, finished_run):
    shutil.copy(finished_run.path / "policy.safetensors", desk.run / "policy.safetensors")
    shown = desk("verify", desk.run, "--runs", finished_run.path, code=2)
    assert shown.out == ""
    assert "policy.safetensors is another file than the one" in shown.err
    assert shown.err.count("\n") == 1
    shown = desk("add", desk.run, code=2)
    assert "is refused by the rule 'weights'" in shown.err
    assert not desk.board.exists()

    # Nor is another run's file taken from elsewhere.
    shutil.rmtree(desk.run / "checkpoints")
    (desk.run / "policy.safetensors").rename(desk.root / "policy.safetensors")
    shown = desk("verify", desk.run, "--runs", desk.root, finished_run.path, code=2)
    assert "no policy.safetensors with the weights" in shown.err
    (desk.root / "policy.safetensors").rename(desk.run / "policy.safetensors")

    # With a digest that fits the file, the weights do not fit the settings.
    digest = hashlib.sha256((desk.run / "policy.safetensors").read_bytes()).hexdigest()
    record = read_record(desk.run / "record.json")
    desk.reseal(record.model_copy(update={"weights_digest": digest}))
    shown = desk("verify", desk.run, code=2)
    assert "holds the weights of another method or other settings" in shown.err


def test_an_untrained_policy_under_a_trained_ones_record(desk):
    from safetensors.numpy import load_file, save_file

    path = desk.run / "policy.safetensors"
    tensors = load_file(path)
    changed = next(name for name in sorted(tensors) if name.startswith("model.actor"))
    save_file({**tensors, changed: tensors[changed] + 0.01}, path)
    record = read_record(desk.run / "record.json")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    desk.reseal(record.model_copy(update={"weights_digest": digest}))
    assert desk.verify(desk.run, code=1).startswith("FAILED  ")


@pytest.mark.parametrize(
    ("of", "changed", "said"),
    [
        ("run", {"parameters": 10}, "states 10 parameters, but its weights are 140099"),
        ("body", {"limbs": 99}, "states limbs 99 of the train body"),
        ("body", {"geometry": "0" * 16}, "states geometry '0000000000000000' of the train body"),
        ("episode", {"ended": "won"}, "that ended by 'won', but those of unimal-ft-v1 have"),
        ("episode", {"length": 1001}, "of 1001 control steps that ended by"),
    ],
)
def test_what_no_run_of_these_settings_bodies_and_task_states(desk, of, changed, said):
    """A record that could never be verified takes no place in a leaderboard."""
    record = read_record(desk.run / "record.json")
    body, *others = record.returns
    changes = {"run": {}, "body": {}, "episode": {}, of: changed}
    episode = body.episodes[0].model_copy(update=changes["episode"])
    changes["body"]["episodes"] = (episode, *body.episodes[1:])
    changes["run"]["returns"] = (body.model_copy(update=changes["body"]), *others)
    desk.reseal(record.model_copy(update=changes["run"]))
    for action in ("add", "verify"):
        shown = desk(action, desk.run, code=2).err.rstrip()
        assert said in shown
        assert shown.endswith("; it does not describe the run that was made")
    assert not desk.board.exists()


def test_values_that_the_method_was_not_tuned_to(desk):
    """Tables would say that it was tuned beforehand."""
    record = read_record(desk.run / "record.json")
    tuning = TunedSettings.model_validate(
        {
            "settings": {"ppo.target_kl": 0.05, "ppo.lr": 0.002}, "trials": [],
            "morphologies": None, "morphologies_digest": None, "env_steps": None,
        }
    )  # fmt: skip
    desk.reseal(record.model_copy(update={"tuning": tuning}))
    assert "tuning differ from an official run's" in desk("add", desk.run, code=2).err
    shown = desk("verify", desk.run, code=2).err
    assert "states that ppo.lr was tuned to 0.002, but its settings have 0.0003" in shown


def test_a_recorded_policy_is_scored_and_loaded_without_its_run(desk, here, monkeypatch):
    desk("add", desk.run)
    own = gmc_bench.Experiment.open(desk.run).evaluate(split="test")
    desk.board.rename(desk.root / "leaderboards")
    shutil.rmtree(desk.run)
    monkeypatch.chdir(desk.root)
    weights, record = (entry for entry in read_ledger(LEADERBOARD / LEDGER_NAME).entries)
    for named in (LEADERBOARD / record.path, record.digest[:8]):
        found = gmc_bench.evaluate(named, split="test")
        assert (found.returns, found.weights_digest) == (own.returns, own.weights_digest)
    policy = gmc_bench.load_policy(record.digest)
    assert policy.actor_bytes() == (LEADERBOARD / weights.path).read_bytes()
    shown = here("run", "--resume", LEADERBOARD / record.path, code=2).err
    assert "is a record, but a run can be continued in its folder only" in shown

    (LEADERBOARD / weights.path).write_bytes(policy.to_bytes())
    with pytest.raises(CheckpointError, match="is another file than the one that was added"):
        gmc_bench.load_policy(record.digest)
    shown = here("leaderboard", "verify", "--all", code=2).err
    assert "is another file than the one that was added" in shown
    assert shown.count("\n") == 1


def test_bodies_that_are_not_there(desk, tmp_path, monkeypatch):
    desk("add", desk.run)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "nowhere"))
    shown = desk("verify", desk.run, code=2)
    assert shown.out == ""
    assert shown.err.startswith("gmc-bench: unknown morphology set 'tiny'")
    assert shown.err.count("\n") == 1
    shown = desk.verify("--all", code=1)
    assert shown.startswith("skipped  1 of 1 records: unknown morphology set 'tiny'")
    # What acts describes itself.
    name = desk.board / read_ledger(desk.board / LEDGER_NAME).entries[1].path
    assert gmc_bench.load_policy(name).acts_only
    assert read_board(desk.board).verifications == ()


def test_another_engine_version_is_compared_by_its_mean(desk):
    record = read_record(desk.run / "record.json")
    desk.reseal(record.model_copy(update={"versions": {**record.versions, "numba": "0.0.1"}}))
    assert "4 episodes equal, 0 within chance (another machine)" in desk.verify(desk.run)


def test_a_record_of_schema_1(desk):
    content = json.loads((desk.run / "record.json").read_bytes())
    for name in ("controller", "suite_digest", "task_digest", "digest"):
        del content[name]
    del content["hardware"]["instructions"]
    content["schema_version"] = 1
    content["env_steps_per_s"] = float(content["env_steps_per_s"])

    def spell(value):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return f"{text}\n".encode()

    content["digest"] = hashlib.sha256(spell(content)).hexdigest()
    (desk.run / "record.json").write_bytes(spell(content))
    assert "4 episodes equal, 0 within chance (another machine)" in desk.verify(desk.run)
    assert "is refused by the rule 'current-rules'" in desk("add", desk.run, code=2).err


def test_an_unofficial_run_is_refused_but_can_be_verified(here, finished_run, tmp_path):
    board = ("--records", tmp_path / "board")
    shown = here("leaderboard", "add", finished_run.path, *board, code=2)
    assert "is refused by the rule 'official'" in shown.err
    assert "the protocol's env_steps was changed" in shown.err
    assert shown.err.count("\n") == 1
    shown = here("leaderboard", "verify", finished_run.path, *board)
    assert ": 4 episodes equal\n" in shown.out
    assert not (tmp_path / "board").exists()


@pytest.mark.slow
def test_replays_on_the_site_are_those_of_verified_records_with_their_weights(desk, monkeypatch):
    def replays() -> tuple[dict[str, bytes], str]:
        desk("build", "--site", "--replays")
        site = desk.board / "leaderboard" / "site"
        pages = {path.name: path.read_bytes() for path in site.glob("replays/*.html")}
        return pages, next(site.glob("boards/*.html")).read_text()

    desk("add", desk.run)
    pages, board = replays()
    assert not pages
    assert "Only verified records are replayed" in board
    desk("verify", "--all")
    pages, board = replays()
    (name,) = pages
    record = read_record(desk.run / "record.json")
    (first, *_) = (item for item in record.returns if item.split == "test" and item.episodes)
    assert f'replays/{name}">watch seed {record.seed}</a>' in board
    assert f"{first.episodes[0].episode_return:,.1f}</span>" in board
    monkeypatch.setattr(EpisodeKeeper, "play", None)  # from now on it is in the cache
    assert replays() == (pages, board)
    (weights,) = (desk.board / "weights").iterdir()
    weights.write_bytes(weights.read_bytes() + b" ")
    pages, board = replays()
    assert not pages
    assert "is another file than the one that was added" in board
