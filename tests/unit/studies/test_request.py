"""Studies of methods in files, of settings in texts, and what cannot be measured afterwards."""

from dataclasses import replace
from pathlib import Path

import pytest

from gmc_bench import studies
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.studies.measurements import GaitComparison
from gmc_bench.studies.request import Request
from gmc_bench.studies.scaling_study import ScalingRequest

BASE = ExperimentSpec(method="recmorph", suite="unimal")


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Work in a folder with two files that hold methods of one id; return their names."""
    monkeypatch.chdir(tmp_path)
    for name in ("wide", "narrow"):
        Path(f"{name}.py").write_text(
            "from dataclasses import replace\nfrom recmorph import SPEC as BASE\n"
            "SPEC = replace(BASE, id='mine', tuned={}, tuning='')\n"
        )
    return "wide.py:SPEC", "narrow.py:SPEC"


def test_two_files_with_one_id_are_two_methods(copies: tuple[str, str], tmp_path: Path) -> None:
    request = Request.make("budget", [*copies, "recmorph"], budgets=("1/3", "1"))
    found = request.specs(BASE, seeds=(1,))
    assert list(found) == [
        f"{name}-x{budget}_ft_seed1"
        for name in ("wide", "narrow", "recmorph")
        for budget in ("1-3", "1")
    ]
    methods = [str(tmp_path / "wide.py:SPEC"), str(tmp_path / "narrow.py:SPEC"), "recmorph"]
    assert [spec.method for spec in found.values()][::2] == methods
    with pytest.raises(ConfigError, match="several methods have the id 'mine'"):
        ScalingRequest.make(copies)


def test_a_file_that_is_compared_with_is_found_from_any_folder(
    copies: tuple[str, str], tmp_path: Path
) -> None:
    request = Request.make("gait", ["recmorph"], against=copies[0])
    assert request.against == str(tmp_path / "wide.py:SPEC")
    for method, against in ((f"./{copies[0]}", copies[0]), ("metamorph-star", None)):
        with pytest.raises(ConfigError, match="against itself; give another one with --against"):
            Request.make("gait", [method], against=against)
    assert Request.make("gait", ["metamorph-star"], against="swat").against == "swat"


@pytest.mark.parametrize("steps", ["3e3", "3000", 3000])
def test_env_steps_may_be_a_text_as_for_a_run(steps: str | int) -> None:
    request = Request.make("budget", ["recmorph"], budgets=("1/3", "2"))
    found = request.specs(BASE.replace(settings={"env_steps": steps}), seeds=(1,))
    assert [spec.settings["env_steps"] for spec in found.values()] == [1000, 6000]


def test_one_value_needs_no_list() -> None:
    found = ScalingRequest.make("recmorph", "time", tokens="8..64")
    assert (found.tokens, list(found.parts)) == ([8, 16, 32, 64], ["time"])
    assert ScalingRequest.make("recmorph", "bodies", bodies=3).bodies == [3]
    assert list(found.methods) == ["recmorph"]


@pytest.mark.parametrize("settings", [{"evaluation.modes": ["stochastic"]},
                                      {"evaluation.splits": ["test"]}])  # fmt: skip
@pytest.mark.usefixtures("tiny_set")
def test_a_body_is_named_where_no_scores_say_which_walks_best(settings: dict[str, object]) -> None:
    spec = BASE.replace(task="ft", protocol="smoke", bodies="tiny", threads=1)
    request = Request.make("gait", ["recmorph"])
    plain = Experiment(spec).session
    GaitComparison().require(plain, request)
    session = Experiment(spec.replace(settings=settings)).session
    with pytest.raises(ConfigError, match="name one with --body"):
        GaitComparison().require(session, request)
    body = session.bodies.split("train")[0].name
    GaitComparison().require(session, replace(request, body=body))
    robots = ExperimentSpec(method="recmorph", suite="quadruped-friction", threads=1)
    with pytest.raises(ConfigError, match="limbs"):
        GaitComparison().require(Experiment(robots).session, request)


@pytest.mark.parametrize(("launch", "here"), [({}, True), ({"launcher": "local"}, False)])
@pytest.mark.usefixtures("tiny_set")
def test_a_launcher_needs_no_memory_for_training_here(
    launch: dict[str, object], here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(session: object, *, trains_here: bool) -> None:
        assert trains_here == here
        raise KeyboardInterrupt

    monkeypatch.setattr("gmc_bench.experiments.session.check_networks", check)
    with pytest.raises(KeyboardInterrupt):
        studies.run("siblings", protocol="smoke", bodies="tiny", launch=launch, tasks="ft", out="s")
