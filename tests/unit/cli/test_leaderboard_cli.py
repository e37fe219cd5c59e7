"""`gmc-bench leaderboard add|verify|check|next|schema`: what they print, refusals included."""

import hashlib
import json
import shutil
import warnings
from getpass import GetPassWarning
from pathlib import Path
from typing import Any

import pytest
import yaml

from gmc_bench.core.config import config_digest
from gmc_bench.experiments.recorded import recorded_config
from gmc_bench.experiments.session import open_session, untrained_policy
from gmc_bench.leaderboard.board import read_board
from gmc_bench.leaderboard.rerun import WeightsMissingError, find_weights
from gmc_bench.leaderboard.rules import installed_rules, rules_of_variants
from gmc_bench.leaderboard.submission import POLICY, read_finished_run
from gmc_bench.methods import METHODS
from gmc_bench.records.environment import collect_versions
from gmc_bench.records.kept import STUDY_FILE, KeptStudy, read_evaluation
from gmc_bench.records.ledger import append, read_ledger
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import LEDGER_NAME, RECORD_NAME, read_stored_record, seal, write_record
from gmc_bench.records.weights import weights_name
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest
from gmc_bench.training.run_config import run_config_of
from tests.support.records import digest_of, make_record, make_returns, make_stored

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "records"
SCHEMA = ROOT / "leaderboards" / "record-v2.schema.json"


def _official(tiny: Any, seed: int = 1, protocol: str = "smoke", **changes: Any) -> RunRecord:
    """Return what a run of RecMorph on the set `tiny` would state, with made-up returns."""
    bodies = {
        "id": tiny.id,
        "digest": tiny.digest,
        "source": tiny.source,
        "licence": tiny.licence,
        "num_train": 2,
        "num_test": 2,
    }
    named = make_record(
        method="recmorph", protocol=protocol, morphologies=bodies, seed=seed, returns=()
    )
    rules = installed_rules(named)
    assert rules is not None
    returns = []
    for split, mode in rules.parts:
        items = [(body.name, body.digest) for body in tiny.split(split)]
        made = make_returns(
            split,
            {name: [10.0 + seed] * rules.episodes for name, _ in items},
            mode,
            seen={"chain-3"},
        )
        returns += [
            item.model_copy(update={"body_digest": digest})
            for item, (_, digest) in zip(made, items, strict=True)
        ]
    each = rules.steps_per_iteration
    fields = {
        **named.model_dump(),
        "suite_digest": rules.suite,
        "task_digest": rules.task,
        "protocol_digest": rules.protocol,
        "protocol_seeds": rules.seeds,
        "config": rules.config,
        "config_digest": config_digest(rules.config),
        "env_steps": rules.env_steps,
        "env_steps_planned": rules.env_steps,
        "env_steps_per_s": rules.env_steps / 10.0,
        "learning_curve": [
            {"env_steps": steps, "mean_return": 90.0, "mean_length": 9.0, "episodes": steps}
            for steps in range(each, rules.env_steps + 1, each)
        ],
        "returns": returns,
        "weights_digest": digest_of(f"weights {seed}"),
    }
    return make_record(**{**fields, **changes})


def _write_run(folder: Path, record: RunRecord) -> Path:
    write_record(folder / RECORD_NAME, record)
    (folder / POLICY).write_text(f"weights {record.seed}")
    return folder


def _write_whole_run(
    folder: Path, tiny: Any, seed: int = 1, protocol: str = "smoke", **changes: Any
) -> Path:
    """Write a run with weights that its settings describe."""
    session = open_session(recorded_config(_official(tiny, seed, protocol)))
    policy = untrained_policy(session)
    data = policy.to_bytes()
    stated = {
        "weights_digest": hashlib.sha256(data).hexdigest(),
        "parameters": policy.model.num_parameters(),
        **changes,
    }
    _write_run(folder, _official(tiny, seed, protocol, **stated))
    (folder / POLICY).write_bytes(data)
    return folder


def _contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def refused(gmc, tmp_path):
    """Run a command that must end with code 2, one sentence, and every file as it was."""

    def run(*argv: object) -> str:
        before = _contents(tmp_path)
        code, out, err = gmc("leaderboard", *argv)
        assert (code, out) == (2, "")
        assert err.startswith("gmc-bench: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        assert _contents(tmp_path) == before
        return err

    return run


@pytest.fixture
def run_dir(tmp_path, tiny_set):
    return _write_run(tmp_path / "runs" / "one", _official(tiny_set))


def test_add_writes_record_weights_and_lines(gmc, refused, tmp_path, tiny_set):
    run_dir = _write_whole_run(tmp_path / "runs" / "one", tiny_set)
    code, out, err = gmc("leaderboard", "add", run_dir)
    assert code == 0, err
    digest = read_stored_record(run_dir / RECORD_NAME).digest
    name = f"results/unimal-v1/unimal-ft-v1/recmorph/smoke-tiny-seed1-{digest[:16]}.json"
    assert out == f"added  leaderboards/{name}\n"
    assert "gmc-bench leaderboard verify --all --records leaderboards" in err
    ledger = Path("leaderboards", LEDGER_NAME)
    weights, record = read_ledger(ledger).entries
    assert (weights.kind, record.path) == ("weights", name)
    assert Path("leaderboards", name).read_bytes() == (run_dir / RECORD_NAME).read_bytes()
    size = Path("leaderboards", weights.path).stat().st_size
    assert 0.45 < size / (run_dir / POLICY).stat().st_size < 0.55  # no critic

    assert "no records of leaderboards have a digest that begins with 00000000" in refused(
        "verify", "00000000"
    )
    ledger.write_bytes(ledger.read_bytes().replace(b'"number":1', b'"number":2'))
    for argv in (("verify", run_dir), ("verify", "--all"), ("check", "--records", "leaderboards")):
        assert "line 1 of the ledger leaderboards/ledger.jsonl" in refused(*argv)


def test_add_takes_seeds_in_order(gmc, refused, tmp_path, tiny_set):
    seeds = SUITES.get("unimal-v1").protocol("lite").seeds
    runs = [_write_whole_run(tmp_path / str(seed), tiny_set, seed, "lite") for seed in seeds]
    assert "'missing-seeds'" in refused("add", *runs[1:])
    assert "'duplicate'" in refused("add", *runs, runs[1])
    assert gmc("leaderboard", "add", *runs)[0] == 0
    assert tuple(item.record.seed for item in read_board(Path("leaderboards")).records) == seeds
    assert "'duplicate'" in refused("add", *runs)
    assert "'duplicate'" in refused("add", runs[2])


CHANGED = {
    "complete": {"returns": ()},
    "official": {
        "official": False,
        "unofficial_reasons": ("the protocol's env_steps was changed",),
    },
    "registered-method": {"method_version": 99},
    "clean-commit": {"git_commit": "a" * 40, "git_dirty": True},
    "not-in-future": {"created": "2999-01-31T23:59:59Z"},
    "current-rules": {"task_digest": digest_of("old task")},
    "weights": {"weights_digest": digest_of("other weights")},
}


@pytest.mark.parametrize("rule", CHANGED)
def test_add_names_the_broken_rule(refused, tmp_path, tiny_set, run_dir, rule):
    assert not Path("leaderboards").exists()
    bad = _write_run(tmp_path / "bad", _official(tiny_set, **CHANGED[rule]))
    assert f"bad is refused by the rule '{rule}' (" in refused("add", bad)
    assert not Path("leaderboards").exists()


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"protocol": {"env_steps": 81_920}}, "config.protocol.env_steps"),
        ({"protocol": {"evaluation": {"episodes": 9}}}, "config.protocol.evaluation.episodes"),
        ({"method_config": {"width": 256}}, "config.method_config.width"),
        ({"morphologies_digest": "0" * 64}, "config.morphologies_digest"),
        ({"morphologies": "gmc-unimal-mini-v1.first2"}, "config.morphologies"),
        ({"task": "another-v1"}, "config.task"),
        ({"precision": "bfloat16"}, "config.precision"),
    ],
)
def test_add_does_not_believe_that_other_settings_are_official(
    refused, tmp_path, tiny_set, setting, name
):
    config = json.loads(json.dumps(_official(tiny_set).config))
    group = config
    for part in name.split(".")[1:-1]:
        group, setting = group[part], setting[part]
    group |= setting
    record = _official(tiny_set, config=config, config_digest=config_digest(config))
    sentence = refused("add", _write_run(tmp_path / "bad", record))
    assert "refused by the rule 'official' (" in sentence
    assert f": {name} differ from an official run's; nothing was added" in sentence


def test_add_refuses_a_method_that_is_not_installed(refused, tmp_path, tiny_set):
    record = _official(tiny_set).model_copy(update={"method": "mine"})
    sentence = refused("add", _write_run(tmp_path / "bad", record))
    assert "'current-rules'" in sentence
    assert "the method mine" in sentence


@pytest.mark.parametrize("protocol", ["smoke", "lite", "paper"])
@pytest.mark.parametrize("method", METHODS.names())
def test_what_an_official_run_is_agrees_with_what_run_plans(gmc, tiny_set, method, protocol):
    argv = ("--suite", "unimal", "--task", "ft", "--morphologies", "tiny", "--protocol", protocol)
    code, out, err = gmc("run", "--method", method, *argv, "--dry-run")
    assert code == 0, err
    planned = run_config_of(yaml.safe_load(out), "the plan")
    assert planned.unofficial_reasons == ()
    record = _official(tiny_set).model_copy(update={"method": method, "protocol": protocol})
    rules = installed_rules(record, tuned=True)
    assert rules is not None
    assert rules.config == planned.identity()
    spec = METHODS.load(method)
    assert rules.protocol == protocol_digest(
        planned.protocol, spec, SUITES.get("unimal-v1"), "unimal-ft-v1"
    )
    assert rules.protocol[:12] in err
    assert f"{rules.env_steps:,} env steps" in err
    if not spec.capabilities.per_body:  # studies of specialists have other rules
        named = ("unimal-v1", "unimal-ft-v1", protocol, method, planned.protocol.preset)
        assert rules_of_variants(*named) == (rules.method_version, rules.protocol, rules.task)


def test_old_records_are_refused_by_name_of_the_rule(refused, tmp_path):
    run = tmp_path / "old"
    run.mkdir()
    shutil.copy(FIXTURES / "v1-unicode.json", run / RECORD_NAME)
    (run / POLICY).write_text("weights")
    assert "'clean-commit'" in refused("add", run)  # it was made without git


WORDS = [
    (("add", "absent"), "absent does not exist; give the folder of a finished run or study, or"),
    (("add", "runs/one", "absent.json"), "absent.json does not exist; give the folder of a"),
    (("add", "runs"), "runs holds several runs, one was expected"),
    (("add", "runs/one/policy.safetensors"), "safetensors is not the folder of a finished run"),
    (("add",), "the following arguments are required: RUN_DIR"),
    (("verify",), "give either one RECORD or --all"),
    (("verify", "runs/one", "--all"), "give either one RECORD or --all"),
    (("verify", "runs/one", "--unverified"), "--unverified goes only with --all; leave it out"),
    (("verify", "runs/one", "--sample", "3"), "--sample goes only with --all; leave it out"),
    (("verify", "runs/one", "--jobs", "8"), "--jobs goes only with --all; leave it out"),
    (("verify", "--all"), "leaderboards holds no records; give another folder with --records"),
    (("verify", "absent.json"), "cannot read absent.json"),
    (("verify", "runs"), "runs holds several runs, one was expected"),
    (("verify", "runs/one", "--runs", "absent", "--ranked"), "unknown option '--ranked'"),
    (("check", "--records", "absent"), "the records folder absent does not exist"),
    (("schema", "more"), "unknown argument 'more'"),
]


@pytest.mark.parametrize(("argv", "reason"), WORDS, ids=[" ".join(case[0]) for case in WORDS])
def test_bad_input(refused, run_dir, argv, reason):
    assert reason in refused(*argv)


def test_weights_that_are_not_there(refused, run_dir, tiny_set):
    digest = digest_of("weights 1")[:12]
    (run_dir / POLICY).write_text("weights of another run")
    sentence = refused("verify", run_dir)
    assert "policy.safetensors is another file than the one that was added, or of" in sentence
    assert f"expected the digest {digest}, got " in sentence
    sentence = refused("verify", run_dir / RECORD_NAME)
    assert f"no policy.safetensors with the weights {digest} of {run_dir}/record.json" in sentence
    assert sentence.endswith("; give the run's folder with --runs\n")
    (run_dir / POLICY).unlink()
    (run_dir / POLICY).mkdir()
    assert "no policy.safetensors with the weights" in refused("verify", run_dir)


def test_weights_are_found_once_they_are_there(run_dir):
    """The digest of a file is remembered only as long as the file is the same."""
    stored = read_finished_run(run_dir)
    path = run_dir / POLICY
    content = path.read_bytes()
    path.write_text("weights of another run")
    with pytest.raises(WeightsMissingError):
        find_weights(stored, None, [run_dir.parent])
    path.write_bytes(content)
    assert find_weights(stored, None, [run_dir.parent]).read() == content


def test_weights_that_are_no_weights(refused, run_dir):
    # The digest fits, the content is a text.
    assert "policy.safetensors" in refused("verify", run_dir)


def test_add_refuses_weights_of_another_method(refused, run_dir):
    assert "policy.safetensors is not a readable safetensors file" in refused("add", run_dir)


@pytest.mark.parametrize("listed", [True, False])
def test_no_record_in_a_leaderboard_is_opened_that_names_code(gmc, tmp_path, tiny_set, listed):
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    official = _official(tiny_set)
    own = official.config | {
        "method": f"{evil}:SPEC",
        "method_source_digest": hashlib.sha256(evil.read_bytes()).hexdigest(),
    }
    record = _official(tiny_set, config=own, config_digest=config_digest(own))
    board = tmp_path / "leaderboards"
    path, weights = board / "results" / "a.json", weights_name(str(record.weights_digest))
    write_record(path, record)
    if listed:
        append(board / LEDGER_NAME, "record", "results/a.json", make_stored(record).digest)
    digest = hashlib.sha256(b"weights 1").hexdigest()
    append(board / LEDGER_NAME, "weights", weights, digest)
    (board / weights).parent.mkdir()
    (board / weights).write_bytes(b"weights 1")
    ways = [
        ("leaderboard", "verify", path),
        ("evaluate", path),
        ("replay", path, "--body", "chain-3"),
    ]
    ways += [("leaderboard", "verify", "--all"), ("evaluate", make_stored(record).digest)] * listed
    for words in ways:
        code, _, err = gmc(*words)
        assert (code, "names the method" in err) == (2, True), (words, err)
        assert not (tmp_path / "executed").exists()
    if not listed:  # a run folder is one's own
        run = _write_run(tmp_path / "runs" / "own", record)
        assert gmc("leaderboard", "verify", run)[0] == 2
        assert (tmp_path / "executed").exists()


def test_verify_all_goes_on_after_a_record_that_it_cannot_verify(gmc, tmp_path, tiny_set):
    for name, task, weights in (
        ("a", "unimal-ft-v1", "x"),
        ("b", "unimal-ft-v1", "weights 1"),
        ("c", "quadruped-velocity-v2", "weights 1"),
    ):
        record = _official(
            tiny_set, weights_digest=digest_of(weights), preset=f"lite-{name}", task=task
        )
        write_record(tmp_path / "leaderboards" / "results" / f"{name}.json", record)
        append(
            tmp_path / "leaderboards" / LEDGER_NAME,
            "record",
            f"results/{name}.json",
            make_stored(record).digest,
        )
    _write_run(tmp_path / "runs" / "b", _official(tiny_set))
    code, out, _ = gmc("leaderboard", "verify", "--all")
    assert code == 1
    first, second, third = out.splitlines()
    assert first.startswith("skipped  1 of 3 records: their weights are neither kept here (they")
    assert second == (
        "skipped  1 of 3 records: their suite or task has a later version here, with other episodes"
    )
    assert third.startswith("not verified  results/b.json: results/b.json states preset 'lite-b'")
    assert read_board(tmp_path / "leaderboards").length == 3

    (tmp_path / "runs" / "a").mkdir()
    (tmp_path / "runs" / "a" / POLICY).write_text("x")
    out = gmc("leaderboard", "verify", "--all", "--sample", "1")[1]
    replaced, sampled, last = out.splitlines()
    assert "has a later version here" in replaced
    assert sampled == "skipped  1 of 3 records: they are not in the sample"
    assert last.startswith("not verified  results/")
    assert "sample" not in gmc("leaderboard", "verify", "--all", "--sample", "2")[1]


STATED: list[tuple[dict[str, Any], str]] = [
    ({"task": "another-v1"}, "states task 'another-v1', but its settings are those of a run with"),
    ({"protocol": "lite"}, "states protocol 'lite', but its settings are those of a run with 'sm"),
    ({"preset": "paper"}, "states preset 'paper'"),
    ({"method": "bot"}, "states method 'bot', but its settings are those of a run with 'recmorph'"),
    ({"protocol_seeds": ()}, "states protocol_seeds ()"),
    ({"controller": "single_robot"}, "states controller 'single_robot'"),
    ({"morphologies": {"digest": "0" * 64}}, "states morphologies.digest '000000"),
    ({"morphologies": {"num_test": 1}}, "states morphologies.num_test 1"),
    (
        {"metres_per_return": 9.0},
        "states metres_per_return 9.0, but its settings are those of a ru",
    ),
    ({"protocol_digest": "0" * 64}, "the protocol of runs/bad/record.json is another one here"),
    ({"task_digest": "0" * 64}, "verify it with gmc-bench 1.2.3"),
    ({"method_version": 99}, "is of version 99 of the method recmorph, version 1 is installed"),
    ({"config": {"method": "x"}}, "the record's config lacks 'method_config'"),
    ({"config": {}}, "the record's config lacks 'method'; it is not the configuration of a run"),
]


@pytest.mark.parametrize(("changes", "reason"), STATED, ids=[case[1] for case in STATED])
def test_verify_refuses_a_record_that_is_filed_as_something_else(
    refused, tmp_path, tiny_set, changes, reason
):
    # Its episodes could well come out the same; they would stand in a table where they do not
    # belong.
    honest = _official(tiny_set)
    fields = dict(changes)
    if "morphologies" in fields:
        fields["morphologies"] = {**honest.morphologies.model_dump(), **fields["morphologies"]}
    if "config" in fields:
        fields["config_digest"] = config_digest(fields["config"])
    if changes.get("controller") or "num_test" in changes.get("morphologies", {}):
        fields["returns"] = [item for item in honest.returns if item.split == "train"]
    _write_run(tmp_path / "runs" / "bad", make_record(**{**honest.model_dump(), **fields}))
    assert reason in refused("verify", "runs/bad")


def test_old_records_whose_settings_are_not_there(refused, tmp_path):
    run = tmp_path / "old"
    run.mkdir()
    shutil.copy(FIXTURES / "v1-unicode.json", run / RECORD_NAME)
    (run / POLICY).write_text("weights")
    assert "the record's config lacks 'method'; it is not the conf" in refused("verify", run)


def test_an_old_record_of_a_set_that_is_here(refused, tmp_path):
    run = tmp_path / "old"
    run.mkdir()
    shutil.copy(FIXTURES / "v1-smoke.json", run / RECORD_NAME)
    assert "no policy.safetensors with the weights" in refused("verify", run)


def test_next_prints_a_run_with_its_reason_and_command(gmc, tmp_path):
    for seed in (1, 2):
        record = make_record(seed=seed, protocol_seeds=(1, 2, 3))
        write_record(tmp_path / "runs" / str(seed) / RECORD_NAME, record)
    code, out, _ = gmc("leaderboard", "next", "--records", "runs")
    assert code == 0
    assert out == (
        "unimal-v1, unimal-ft-v1: protocol lite on demo-set-v1\n"
        "  incomplete: 2 of 3 seeds are there\n"
        "  gmc-bench run --method demo --suite unimal-v1 --task unimal-ft-v1 --protocol lite "
        "--morphologies demo-set-v1 --seed 3\n"
    )


def test_next_says_so_where_no_run_is_left(gmc, tmp_path):
    # A single row whose protocol leaves its seeds open lacks nothing.
    write_record(tmp_path / "runs" / "one" / RECORD_NAME, make_record(protocol_seeds=()))
    code, out, err = gmc("leaderboard", "next", "--records", "runs")
    assert (code, out) == (0, "")
    assert "No table of today's rules lacks a run that would decide anything." in err


def test_the_published_schema_is_up_to_date(gmc):
    code, out, err = gmc("leaderboard", "schema")
    assert (code, err) == (0, "")
    assert SCHEMA.read_text() == out, f"gmc-bench leaderboard schema > {SCHEMA}"


def test_records_satisfy_the_published_schema(tiny_set, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    fixtures = sorted(FIXTURES.glob("v2-*.json"))
    assert len(fixtures) >= 2
    for path in (*fixtures, _write_run(tmp_path / "run", _official(tiny_set)) / RECORD_NAME):
        validator.validate(json.loads(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        {"digest": None},
        {"digest": "abc"},
        {"status": "done"},
        {"parameters": -1},
        {"reviewer": "me"},
        {"schema_version": 1},
        {"returns": [{}]},
        {"method": "No Id"},
    ],
)
def test_the_published_schema_refuses(change):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    content = {**json.loads((FIXTURES / "v2-smoke.json").read_bytes()), **change}
    assert not validator.is_valid(content)
    del content["digest"]
    assert not validator.is_valid(content)


# --- signed records


@pytest.fixture
def key(gmc, tmp_path, monkeypatch):
    """Return a secret key and its public half, made by the command."""
    monkeypatch.setattr("gmc_bench.leaderboard.signing.getpass", lambda prompt: "")
    path = tmp_path / "keys" / "mine.key"
    code, out, _ = gmc("leaderboard", "sign", "--new-key", "--key", path)
    assert code == 0
    return path, out.strip()


def _ask_for(public: str, **others: object) -> None:
    Path("leaderboards").mkdir(exist_ok=True)
    content = {"keys": {"jane": public}, **others}
    Path("leaderboards", "signers.yaml").write_text(yaml.safe_dump(content))


def test_a_signed_run_enters_with_its_signature(gmc, refused, tmp_path, tiny_set, key):
    path, public = key
    first, second = (
        _write_whole_run(tmp_path / "runs" / str(n), tiny_set, n, "lite") for n in (1, 2)
    )
    _ask_for(public, required_from=1)
    assert "1 is refused by the rule 'signature' (" in refused("add", first)
    assert gmc("leaderboard", "sign", first, second, "--key", path)[0] == 0
    assert gmc("leaderboard", "add", first)[0] == 0
    entries = read_ledger(Path("leaderboards", LEDGER_NAME)).entries
    assert [entry.kind for entry in entries] == ["weights", "record", "signature"]
    assert entries[2].path == f"{entries[1].path}.minisig"
    code, _, err = gmc("leaderboard", "check", "--records", "leaderboards")
    assert (code, "1 signed by jane" in err) == (1, True)  # no tables yet

    stranger = second / "record.json.minisig"
    stranger.write_bytes(stranger.read_bytes().replace(b"RU", b"RW", 1))
    assert "2 is refused by the rule 'signature' (" in refused("add", second)
    Path("leaderboards", entries[2].path).unlink()
    assert "which is missing; restore the file" in refused("verify", "--all")


@pytest.mark.slow
def test_a_signature_of_an_unknown_key_fails_and_unsigned_records_need_none(
    gmc, tmp_path, tiny_set, key
):
    path, public = key
    run = _write_whole_run(tmp_path / "runs" / "one", tiny_set)
    assert gmc("leaderboard", "add", run)[0] == 0
    before = Path("leaderboards", LEDGER_NAME).read_bytes()
    assert gmc("leaderboard", "build", "--records", "leaderboards", "--out", "leaderboards")[0] == 0
    argv = ("leaderboard", "check", "--records", "leaderboards", "--out", "leaderboards")
    code, out, err = gmc(*argv)
    assert (code, out, err) == (0, "", "")
    assert Path("leaderboards", LEDGER_NAME).read_bytes() == before

    record = Path("leaderboards", read_ledger(Path("leaderboards", LEDGER_NAME)).entries[1].path)
    _ask_for(public, required_from=2)
    assert "is not signed; leaderboards/signers.yaml asks for" in gmc(*argv)[1]
    assert gmc("leaderboard", "sign", record, "--key", path)[0] == 0
    assert "is signed already" in gmc("leaderboard", "sign", record, "--key", path)[2]
    gmc("leaderboard", "build", "--records", "leaderboards", "--out", "leaderboards")
    assert gmc(*argv)[0] == 0
    _ask_for(public, until={"jane": 2})  # given up after the record, which is in the second line
    assert gmc(*argv)[0] == 0
    _ask_for(public, until={"jane": 1})
    assert gmc(*argv)[0] == 1
    _ask_for("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
    code, out, _ = gmc(*argv)
    assert code == 1
    assert out.startswith("FAILED  leaderboards/results/")
    assert gmc("leaderboard", "verify", record)[1].splitlines()[0] == out.strip()


@pytest.mark.parametrize("where", ["closed", "shown"])
def test_a_password_needs_a_terminal(gmc, tmp_path, monkeypatch, where):
    def no_terminal(prompt):
        if where == "closed":
            raise EOFError
        warnings.warn("it would be shown", GetPassWarning, stacklevel=2)
        return "secret"

    monkeypatch.setattr("gmc_bench.leaderboard.signing.getpass", no_terminal)
    code, out, err = gmc("leaderboard", "sign", "--new-key", "--key", tmp_path / "key")
    assert (code, out) == (2, "")
    assert err == "gmc-bench: a password is asked for, but there is no terminal; use one\n"
    assert not (tmp_path / "key").exists()


def test_a_new_password_is_typed_twice(refused, tmp_path, monkeypatch):
    typed = iter(["one", "two"])
    monkeypatch.setattr("gmc_bench.leaderboard.signing.getpass", lambda prompt: next(typed))
    sentence = refused("sign", "--new-key", "--key", tmp_path / "key")
    assert "the two passwords differ; nothing was written" in sentence
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda _: {"preset": "mine"}, "states preset 'mine', but its settings are those of a run"),
        (lambda _: {"metres_per_return": 9.0}, "states metres_per_return 9.0"),
        (
            lambda record: {
                "morphologies": record.morphologies.model_copy(update={"num_test": 1}),
                "returns": tuple(
                    item
                    for item in record.returns
                    if (item.split, item.body) != ("test", "chain-3")
                ),
            },
            "states morphologies.num_test 1",
        ),
        (
            lambda record: {
                "returns": tuple(
                    item.model_copy(update={"body": f"{item.body}-easy"}) for item in record.returns
                )
            },
            "that the set tiny does not have",
        ),
        (
            lambda record: {
                "returns": tuple(
                    item.model_copy(update={"body_digest": digest_of(item.body)})
                    for item in record.returns
                    if not item.seen_in_train
                )
                + tuple(item for item in record.returns if item.seen_in_train)
            },
            "that the set tiny does not have",
        ),
    ],
    ids=["preset", "metres", "fewer bodies", "names of bodies", "other bodies"],
)
def test_add_refuses_what_verify_would(refused, tmp_path, tiny_set, forge, reason):
    # Else it would have a row of its own, or keep all tables from being built, for ever.
    run_dir = _write_whole_run(tmp_path / "runs" / "one", tiny_set)
    record = read_stored_record(run_dir / RECORD_NAME).record
    write_record(run_dir / RECORD_NAME, record.model_copy(update=forge(record)))
    assert reason in refused("add", run_dir)
    assert reason in refused("verify", run_dir)


def test_add_keeps_no_study_beside_a_run_that_is_refused(gmc, refused, tmp_path, tiny_set):
    run_dir = _write_whole_run(tmp_path / "runs" / "one", tiny_set)
    (tmp_path / "study").mkdir()
    fields = {"study": "ordering", "suite": "unimal-v1", "protocol": "lite", "status": "complete"}
    study = KeptStudy(**fields, runs=(), versions={})
    (tmp_path / "study" / STUDY_FILE).write_bytes(seal(study))
    bad = _write_run(
        tmp_path / "bad",
        _official(tiny_set, seed=99, official=False, unofficial_reasons=("the seed was changed",)),
    )
    assert "nothing was added" in refused("add", "study", bad)
    code, out, err = gmc("leaderboard", "add", "study", run_dir)
    assert code == 0, err
    assert out.splitlines()[-1] == "added  leaderboards/studies/study.json"


def test_a_kept_evaluation_is_verified_by_scoring_again(gmc, refused, tmp_path, tiny_set):
    run_dir = _write_whole_run(tmp_path / "runs" / "one", tiny_set, versions=collect_versions())
    assert gmc("leaderboard", "add", run_dir)[0] == 0
    (record,) = Path("leaderboards/results").rglob("*.json")
    code, out, err = gmc(
        "evaluate", record, "--json", "--morphologies", "tiny+damping-v1", "--sensor-dropout"
    )
    assert code == 0, err
    content = json.loads(out)
    Path("e.json").write_text(json.dumps({**content, "git_commit": "0" * 40, "git_dirty": False}))
    code, out, err = gmc("leaderboard", "add", "e.json")
    assert code == 0, err
    (path,) = Path("leaderboards/evaluations").iterdir()
    assert out == f"added  {path}\n"
    assert path.name.endswith("_tiny+damping-v1-test-dropout.json")
    for argv in (("--ranked-only",), ("--runs", "runs/one")):
        assert f"{argv[0]} is for records, got it for a kept" in refused("verify", path, *argv)
    code, out, _ = gmc("leaderboard", "verify", path)
    kept = read_evaluation(path)
    assert (code, out) == (0, f"verified  {path}: the same score, {kept.score:,.2f}\n")

    def verdict(**changes: Any) -> tuple[int, str]:
        path.write_bytes(seal(kept.model_copy(update=changes)))
        return gmc("leaderboard", "verify", path)[:2]

    code, out = verdict(score=kept.score + 1e-9)
    assert (code, out.split()[0]) == (1, "FAILED")
    assert out.endswith(
        "on the machine and with the software that it states, the same must come out\n"
    )
    code, out = verdict(score=kept.score + 1e-9, hardware=None)
    assert (code, out.split()[0]) == (0, "verified")
    assert "found; by chance they differ by up to" in out
    code, out = verdict(score=kept.score + 1e5, hardware=None)
    assert (code, out.split()[0]) == (1, "FAILED")
    assert read_board(Path("leaderboards")).length == 2  # what is found is not listed
    for changes, reason in (
        ({"bodies": kept.bodies - 1}, "it does not describe an evaluation on this set"),
        ({"weights_digest": "0" * 64}, "the leaderboard has no record of the policy that"),
        (
            {"trained_on": kept.trained_on.model_copy(update={"digest": "0" * 64})},
            "the leaderboard has no record of the policy that",
        ),
    ):
        path.write_bytes(seal(kept.model_copy(update=changes)))
        assert reason in refused("verify", path)
