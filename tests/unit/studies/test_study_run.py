"""What a study states of its runs, and takes from their records."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments.events import Remark
from gmc_bench.experiments.friction import study_numbers
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.records.environment import collect_versions
from gmc_bench.studies import measurements
from gmc_bench.studies.catalogue import COMPONENTS, GAIT
from gmc_bench.studies.gait import BrokenEpisodeError
from gmc_bench.studies.measurements import FinishedRun
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.request import Request
from gmc_bench.studies.study_run import StudyRun, versions_of
from gmc_bench.training.run_config import RunConfig
from tests.support.records import make_friction, make_record, make_returns


def test_versions_are_those_that_runs_were_made_and_measured_with():
    arm = COMPONENTS.arms[0]
    versions = make_record().versions
    newer = make_record(versions={**versions, "mujoco": "1.2.4", "scipy": "1.0"})
    first, second, unfinished = (
        Outcome(arm, "unimal-ft-v1", seed, record)
        for seed, record in enumerate((make_record(), newer, None), 1)
    )
    assert versions_of([first, unfinished]) == versions
    assert versions_of([first, second]) == {**versions, "mujoco": "1.2.3, 1.2.4", "scipy": "1.0"}
    measured = Outcome(arm, "unimal-ft-v1", 1, make_record(), {"stride": 1.0})
    assert versions_of([measured])["mujoco"] == f"1.2.3, {collect_versions()['mujoco']}"


@pytest.mark.parametrize("settings", [{}, {"env_steps": 60_000}])
def test_other_env_steps_are_a_change_at_every_budget(tiny_set, settings):
    request = Request.make("budget", ["recmorph"], budgets=["1/3", "1"])
    base = ExperimentSpec(
        method="recmorph", suite="unimal", task="ft", bodies="tiny", threads=1, settings=settings
    )
    for arm in request.arms:
        config = resolve(request.variant(base, arm)).config
        reasons = config.unofficial_reasons
        made = make_record(official=not reasons, unofficial_reasons=reasons)
        study = SimpleNamespace(request=request, sweep=SimpleNamespace(runs={"a": config}))
        found = StudyRun._changes(study, "a", Outcome(arm, config.task, 1, made))
        assert ("the protocol's env_steps was changed" in found) == bool(settings)


@pytest.mark.parametrize(
    ("change", "options", "again"),
    [
        ({}, FrictionOptions(), False),
        ({"seconds": 8.0}, FrictionOptions(), True),
        ({}, FrictionOptions(heading="free"), True),
    ],
)
def test_frictions_of_a_record_are_taken_if_they_were_measured_as_asked_today(
    change, options, again, monkeypatch
):
    record = make_record(
        suite="quadruped-friction-v3",
        protocol="smoke",
        friction=[{**item, **change} for item in make_friction()],
    )
    monkeypatch.setattr(measurements, "measure_run", lambda *_: "measured again")
    monkeypatch.setattr(measurements, "friction_setting", lambda *_: {})
    monkeypatch.setattr(measurements, "study_numbers", lambda _, results: results)
    session = SimpleNamespace(config=None)
    run = SimpleNamespace(record=record, session=session, policy=None, listener=None)
    found = measurements.Friction().measure(run, SimpleNamespace(friction=options))
    assert (found == "measured again") == again
    assert again or found == [item.model_dump() for item in record.friction]


def test_a_run_is_measured_on_the_device_there_is(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Made:
        config: RunConfig

    config = resolve(ExperimentSpec(method="zero-action", suite="closed-loop")).config
    trained = Made(replace(config, device="cuda:99"))
    run = FinishedRun("a", None, SimpleNamespace(session=trained), None, tmp_path, print)
    assert run.session.config.device == "cpu"


def test_start_states_of_studies_follow_from_the_seed_of_the_run(tmp_path, monkeypatch):
    """Those of train bodies; every study and every evaluation has others."""
    asked = []

    def note(policy, task, bodies, *, seed, **_):
        asked.append((bodies, seed))

    monkeypatch.setattr("gmc_bench.studies.siblings.score_sibling_orders", note)
    monkeypatch.setattr("gmc_bench.studies.siblings.count_episodes", lambda *_: 0)
    monkeypatch.setattr("gmc_bench.studies.representation.collect", note)
    monkeypatch.setattr("gmc_bench.studies.representation.plot_pca", lambda *_: None)
    monkeypatch.setattr("gmc_bench.studies.representation.probe", lambda *_: None)
    monkeypatch.setattr(measurements, "asdict", lambda found: found)
    config = resolve(ExperimentSpec(method="zero-action", suite="closed-loop")).config
    for seed in (1, 2):
        session = SimpleNamespace(
            config=replace(config, seed=seed), task=None, bodies=SimpleNamespace(split=str)
        )
        run = SimpleNamespace(
            session=session, policy=None, name="a", folder=tmp_path, count=lambda *_: print
        )
        for measure in (measurements.Siblings, measurements.Representation):
            measure().measure(run, None)
        asked.append(("train", evaluation_seed(seed, "train", "deterministic")))
    assert {bodies for bodies, _ in asked} == {"train"}
    assert len({seed for _, seed in asked}) == len(asked) == 6


def test_gaits_are_shown_on_the_body_that_all_methods_walk_best_on():
    records = [
        make_record(
            returns=(
                *make_returns("train", {"a": [first], "b": [second]}),
                *make_returns("train", {"a": [1e6]}, mode="stochastic"),
                *make_returns("test", {"c": [1e6]}),
            )
        )
        for first, second in ((10.0, 8.0), (1.0, 9.0), (5.0, 4.0))
    ]
    assert measurements.best_body(records[:1]) == "a"
    assert measurements.best_body(records) == "b"


def test_gaits_are_compared_where_all_runs_are_finished_with_a_picture_or_without(
    tmp_path, monkeypatch
):
    told = []

    def made(name, seed):
        return FinishedRun(
            name, None, None, make_record(method=name, seed=seed), tmp_path, told.append
        )

    def draw(gaits, path, *, start):
        raise ConfigError("an episode has 1 step")

    monkeypatch.setattr(
        measurements, "_record", lambda *_: SimpleNamespace(length=1, control_dt=1.0)
    )
    monkeypatch.setattr(measurements, "_numbers", lambda gait: {"speed": 1.0})
    monkeypatch.setattr("gmc_bench.rendering.episode.render_episode", lambda *_, **__: None)
    monkeypatch.setattr("gmc_bench.studies.gait_figure.plot_gait", draw)
    runs = [made("first", 1), made("second", 1), made("alone", 2)]
    compare = measurements.GaitComparison().compare
    monkeypatch.setattr(measurements, "best_body", lambda records: "a")
    found, pictures = compare(runs, SimpleNamespace(body=None, arms=GAIT.arms))
    assert found == {name: {"body": "a", "speed": 1.0} for name in ("first", "second")}
    assert pictures == []
    no_picture = Remark("no picture gait_ft_seed1.png: an episode has 1 step")
    assert told[0] == no_picture
    (remark,) = told[1:]
    assert remark.text.startswith("no gaits of unimal-ft-v1, seed 2: not all methods have finished")
    chosen = SimpleNamespace(body="b", arms=GAIT.arms)
    assert set(compare(runs, chosen)[0]) == {"first", "second", "alone"}

    def breaks(run, body):
        if run.name == "first":
            raise BrokenEpisodeError("the simulation broke")
        return SimpleNamespace(length=1, control_dt=1.0)

    monkeypatch.setattr(measurements, "_record", breaks)
    assert set(compare(runs, chosen)[0]) == {"second", "alone"}
    assert Remark("no gait of first: the simulation broke") in told
    assert compare(runs, SimpleNamespace(body=None, arms=GAIT.arms)) == ({}, [])
    assert Remark("no gaits of unimal-ft-v1, seed 1: a does not suit them all") in told

    def fails(run, body):
        raise ConfigError("the networks need more memory than is free")

    monkeypatch.setattr(measurements, "_record", fails)
    with pytest.raises(ConfigError, match="more memory"):
        compare(runs, chosen)


def test_means_over_robots_are_told_by_friction_and_by_direction():
    def measured(robot, friction, value, **direction):
        readings = ({"progress": value, "falls": 1}, {"progress": value - 1.0, "falls": 1})
        names = ("restarts", "single_life")
        return {
            "robot": robot,
            "friction": friction,
            **direction,
            **dict(zip(names, readings, strict=True)),
        }

    results = [
        measured("go1", "low", 2.0), measured("go2", "low", 4.0),
        measured("go1", "nominal", 6.0), measured("go2", "nominal", 9.0),
        measured("go1", "nominal", 1.0, direction="left"),
        measured("go2", "nominal", 2.0, direction="left"),
    ]  # fmt: skip
    found = study_numbers({"rule": "two-state"}, results)

    def means(value):
        return {"restarts": {"progress": value}, "single_life": {"progress": value - 1.0}}

    assert found["macro"] == {"low": means(3.0), "nominal": means(7.5)}
    # Straight ahead counts on the friction where the other directions are measured.
    assert found["directions"] == {"forward": means(7.5), "left": means(1.5)}
    assert (found["setting"], found["results"]) == ({"rule": "two-state"}, results)
