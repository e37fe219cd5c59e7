import json
from types import SimpleNamespace

import pytest

from benchmarks import protocol_search, time_to_return, tune_all
from benchmarks.protocol_search import SETTINGS, Clock, Search, table_of
from benchmarks.script import run
from gmc_bench.experiments.events import IterationFinished
from gmc_bench.experiments.resolve import resolve
from gmc_bench.methods import METHODS
from gmc_bench.suites import SUITES
from tests.support.records import make_record


def record(method, returned, seed=1, env_steps=5000, **rules):
    protocol = {"name": "lite", "env_steps": env_steps, "seeds": [1], "num_envs": 64, **rules}
    return make_record(
        method=method,
        seed=seed,
        training_return=returned,
        config={"protocol": protocol},
        official=False,
        unofficial_reasons=("rules",),
    )


def test_a_table_has_a_row_per_rules_and_never_averages_different_lengths():
    records = [
        record("a", 10.0),
        record("a", 20.0, seed=2),
        record("b", 40.0),
        record("a", 30.0, ppo={"gamma": 0.9}),
        record("b", 20.0, ppo={"gamma": 0.9}),
    ]
    table = table_of(records)
    rows = [dict(zip(table.headings, row, strict=True)) for row in table.rows]
    assert [row["share of the best"] for row in rows] == ["0.75", "0.75"]
    assert rows[0]["environments x steps"] == "64 x -"
    assert rows[0]["a"].startswith("15.0 (2; ")
    assert rows[1]["a"].startswith("30.0 (1; ")
    assert rows[1]["gamma, lambda"] == "0.9, -"
    long = record("a", 99.0).model_copy(update={"env_steps": 9999})
    assert len(table_of([*records, long]).rows) == 3
    other = {**records[0].config, "method_config": {"dropout": 0.1}}
    wide = record("a", 99.0, seed=3).model_copy(update={"config": other})
    assert len(table_of([*records, wide]).rows) == 3
    with pytest.raises(ValueError, match="expected runs of one task"):
        table_of([])


def test_the_rules_that_teach_most_come_first():
    """What is missing counts 0; the best rules of a method are the measure of its others."""
    returns = {32: (10.0, None), 64: (20.0, 300.0), 128: (15.0, 600.0)}
    records = [
        record(method, returned, num_envs=num_envs)
        for num_envs, both in returns.items()
        for method, returned in zip("ab", both, strict=True)
        if returned is not None
    ]
    rows = table_of(records).rows
    assert [(row[0], row[-1]) for row in rows] == [
        ("128 x -", "0.88"), ("64 x -", "0.75"), ("32 x -", "0.25"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("main", "options", "why"),
    [
        (protocol_search.main, "--morphologies gmc-unimal-mini-v2", "is a set that tables score"),
        (protocol_search.main, "--table .", "no records are in .; give a folder of runs"),
        (tune_all.main, "--methods nosuch", "unknown method 'nosuch'"),
        (time_to_return.main, "--morphologies nosuch", "unknown morphology set 'nosuch'"),
    ],
)
def test_bad_input_ends_with_a_sentence(tmp_path, monkeypatch, capsys, main, options, why):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["script", *options.split()])
    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("error: ")
    assert why in sentence


@pytest.mark.slow
def test_every_setting_is_one_that_runs_can_have(tiny_set, tmp_path):
    rules = set()
    for name in SETTINGS:
        spec = Search(tmp_path, "tiny", 1.0).spec("recmorph", name, 1001, 200_000)
        config = resolve(spec).config
        assert config.protocol.evaluation.splits == ("train",)
        assert config.seed not in SUITES.get("unimal-v1").protocol("lite").seeds
        rules.add(repr(config.protocol))
    assert len(rules) == len(SETTINGS)  # no two of them are the same


def test_what_a_method_brings_along_is_not_searched_with(tiny_set, tmp_path):
    spec = Search(tmp_path, "tiny", 1.0).spec("metamorph", "base", 1001, 200_000)
    assert METHODS.get("metamorph").training["ppo"]["target_kl"] == 0.2
    assert resolve(spec).config.protocol.ppo.target_kl == 0.05


def test_as_many_steps_as_fit_into_the_time(tmp_path, monkeypatch):
    clock, times = Clock(), iter([10.0, 12.0, 14.0])
    monkeypatch.setattr(protocol_search.time, "process_time", lambda: next(times))
    for steps in (100, 300, 500):  # the first iteration compiles
        clock(IterationFinished(steps, None))
    assert clock.steps_per_second == 100.0
    search = Search(tmp_path, "tiny", 30.0)
    (tmp_path / "pilots").mkdir()
    (tmp_path / "pilots" / "base_recmorph.json").write_text(json.dumps({"steps_per_second": 100.0}))
    assert search.env_steps("recmorph", "base") == 3000


def test_a_search_is_shown_by_what_was_there_before_and_what_is_kept():
    trials = [
        {"settings": {"ppo.lr": rate, "model.dropout": 0.1}, "value": value, "core_seconds": 5.0}
        for rate, value in ((1e-3, 10.0), (2e-3, 20.0), (3e-3, 30.0), (4e-3, 25.0))
    ]
    table = tune_all.table({"a": {"trials": trials, "best": 2}})
    kept = ["rate 0.003, dropout 0.1", "30.0"]
    assert table.rows == [["a", "rate 0.001, dropout 0.1", "10.0", *kept, "4", "20"]]


def test_what_trials_found_is_kept_beside_them(tmp_path, monkeypatch):
    package = tmp_path / "kept_package"
    package.mkdir()
    (package / "__init__.py").write_text('SPEC = dict(\n    id="b",\n    builder=None,\n)\n')
    monkeypatch.syspath_prepend(tmp_path)
    method = SimpleNamespace(builder="kept_package.model:build")
    monkeypatch.setattr(METHODS, "get", lambda name: method)
    found = {"kept": {"ppo.lr": 0.00123456789, "model.dropout": 0.1}}
    monkeypatch.setattr(tune_all, "read_result", lambda file: ("k", found))
    (tmp_path / "tuning.json").write_text("trials")
    module = tune_all.keep("b", tmp_path / "tuning.json")
    assert module == package / "__init__.py"
    assert (package / "b.tuning.json").read_text() == "trials"
    assert module.read_text() == (
        'SPEC = dict(\n    id="b",\n'
        '    tuned={"k": {"ppo.lr": 0.00123456789, "model.dropout": 0.1}},\n'
        '    tuning="kept_package:b.tuning.json",\n'
        "    builder=None,\n)\n"
    )


def test_what_methods_keep_is_written_into_their_specifications():
    source = (
        'SPEC = MethodSpec(\n    id="a",\n    title="A",\n    builder=B,\n)\n'
        'OTHER = MethodSpec(\n    id="b",\n    builder=B,\n)\n'
    )
    once = tune_all.with_lines(source, "b", '    tuned={"k": {"x": 1}},\n    tuning="p:f",\n')
    assert once.count("tuned") == 1
    assert once.index("tuned") > once.index('id="b"')
    again = tune_all.with_lines(once, "b", '    tuned={"k": {"x": 2}},\n    tuning="p:g",\n')
    assert again == once.replace('"x": 1', '"x": 2').replace("p:f", "p:g")
    with pytest.raises(ValueError, match="no specification with the id 'c'"):
        tune_all.with_lines(source, "c", "")
    assert {"recmorph", "swat"} <= set(tune_all.methods())
    assert "mlp" not in tune_all.methods()
