"""What a method keeps of its trials is checked before hours are spent on a run."""

import json
from pathlib import Path

import pytest

from tests.support.slow import slow_but

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method.py"
KEY = "unimal-v1/unimal-ft-v1/lite"
KEPT = {"ppo.lr": 0.002, "ppo.target_kl": 0.1}
SEARCH = {
    "method": "my-method",
    "kept": KEPT,
    "bodies": {"id": "gmc-search-v1", "digest": "0" * 64},
    "env_steps": 300_000,
    "trials": [{"settings": KEPT, "returns": {"1001": 5.0}}],
}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a method which keeps something, and its trials beside it."""

    def write(lines, search=None):
        text = EXAMPLE.read_text().replace("    builder=", f"    {lines}\n    builder=")
        (tmp_path / "my_method.py").write_text(text)
        if search is not None:
            (tmp_path / "tuning.json").write_text(json.dumps(search))
        return f"{tmp_path / 'my_method.py'}:SPEC"

    return write


def trials(**changes):
    return {"format": 1, "searches": {KEY: {**SEARCH, **changes}}}


def tuned(settings=None, key=KEY):
    return f"tuned={ {key: settings or KEPT}!r},"


FILE = " tuning='tuning.json',"
FAULTS = {
    "missing": (tuned() + FILE, None, "cannot be read from 'tuning.json'"),
    "empty": (tuned() + FILE, {"format": 1}, "holds no trials under 'searches'"),
    "damaged": (tuned() + FILE, trials(trials=[{}]), "that can be read ('trials' is missing or"),
    "another method's": (
        tuned() + FILE,
        trials(method="nervenet"),
        "are those of the method 'nervenet'; leave 'tuned' and 'tuning' out of a copied",
    ),
    "an earlier version's": (
        "version=2, " + tuned() + FILE,
        trials(method_version=1),
        "are those of its version 1, but it has version 2; make them again with",
    ),
    "other values": (
        tuned({"ppo.lr": 0.001}) + FILE,
        trials(),
        "keeps {'ppo.lr': 0.001} for 'unimal-v1/unimal-ft-v1/lite', but its trials in",
    ),
    "other tasks": (
        tuned(key="unimal-v1/unimal-vt-v1/lite") + FILE,
        trials(),
        "'tuning.json' has no trials of it; did you mean 'unimal-v1/unimal-ft-v1/lite'?",
    ),
    "beyond": (tuned({"ppo.lr": 1.0}), None, "to 1.0, but methods tune it from 0.0003 to 0.003"),
    "short suite": (
        tuned(key="unimal/ft/lite"),
        None,
        "names 'unimal', which is no full id of a suite; did you mean 'unimal-v1'?",
    ),
    "misspelt suite": (tuned(key="unimall-v1/unimal-ft-v1/lite"), None, "mean 'unimal-v1'?"),
    "short task": (
        tuned(key="unimal-v1/ft/lite"),
        None,
        "names 'ft', which is no task of 'unimal-v1'; did you mean 'unimal-ft-v1'?",
    ),
    "unknown protocol": (
        tuned(key="unimal-v1/unimal-ft-v1/light"),
        None,
        "names 'light', which is no protocol of 'unimal-v1'; did you mean 'lite'?",
    ),
    "threshold of a short task": (
        "task_target_kl={'ft': 0.03},",
        None,
        "names 'ft', which is no full id of a task; did you mean 'unimal-ft-v1'?",
    ),
    "no dropout": (
        tuned({"model.dropout": 0.1}),
        None,
        "sets 'model.dropout' for 'unimal-v1/unimal-ft-v1/lite', but its settings have nothing",
    ),
}


@pytest.mark.parametrize(
    "fault",
    slow_but(FAULTS, "damaged", "other values", "beyond", "short suite", "unknown protocol"),
)
def test_what_cannot_be_kept_fails_the_check_and_starts_no_run(here, gmc, write, tmp_path, fault):
    lines, search, sentence = FAULTS[fault]
    method, out = write(lines, search), tmp_path / "run"
    refused = here("run", "--method", method, *gmc.settings, "--env-steps", "512", "--out", out,
                   code=2)  # fmt: skip
    assert sentence in refused.err
    assert "Traceback" not in refused.err
    assert not out.exists()
    argv = ("--preset", "lite", "--backend", "none", "--json")
    found = json.loads(here("check-method", method, *argv, code=1).out)["presets"]["lite"]
    failed = [result["detail"] for result in found if result["passed"] is False]
    assert len(failed) == 1
    assert sentence in failed[0]


@pytest.mark.slow
def test_trials_beside_the_methods_file_are_found_from_any_folder_and_recorded(
    here, gmc, write, tmp_path
):
    key = "unimal-v1/unimal-ft-v1/smoke"
    method = write(tuned(key=key) + FILE, {"format": 1, "searches": {key: SEARCH}})
    assert Path.cwd() != tmp_path
    here("check-method", method, "--preset", "lite", "--backend", "none")
    changes = ("--ppo.lr", "0.002", "--ppo.target-kl", "0.1", "--env-steps", "512")
    here("run", "--method", method, *gmc.settings, *changes, "--out", tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "record.json").read_bytes())["tuning"]
    assert kept["settings"] == KEPT
    assert kept["trials"] == SEARCH["trials"]


@pytest.mark.parametrize(
    "lines",
    slow_but(
        [
            tuned(key="their-suite-v1/their-task-v1/lite"),
            tuned(key="unimal-v2/unimal-ft-v2/lite"),
            "task_target_kl={'their-task-v1': 0.03},",
        ],
        tuned(key="their-suite-v1/their-task-v1/lite"),
    ),
)
def test_suites_of_other_packages_and_versions_need_not_be_here(here, gmc, write, tmp_path, lines):
    method = write(lines)
    found = here("check-method", method, "--preset", "lite", "--backend", "none", "--json").out
    description = json.loads(found)["presets"]["lite"][0]["detail"]
    assert "; not here: their-" in description or "; not here: unimal-v2/" in description
    short = ("--env-steps", "512", "--evaluation.modes", "")
    here("run", "--method", method, *gmc.settings, *short, "--out", tmp_path / "run")


def test_what_a_method_has_without_tuning_may_be_beyond_the_ranges(here, write):
    argv, kept = ("--preset", "lite", "--backend", "none"), tuned({"ppo.target_kl": 0.5})
    here("check-method", write("training={'ppo': {'target_kl': 0.5}}, " + kept), *argv)
    here("check-method", write(kept), *argv, code=1)
