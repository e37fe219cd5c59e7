"""Studies from Python: what would otherwise be passed over, and mistakes in one sentence."""

import pytest

from gmc_bench import studies
from gmc_bench.core.errors import ConfigError
from gmc_bench.studies.study_run import StudyRun


@pytest.mark.parametrize(
    ("study", "options", "reason"),
    [
        ("siblings", {"method": "swat"}, "a study has no 'method', got 'swat'; give methods after"),
        ("siblings", {"task": "incline"}, r"has no 'task', got 'incline'; give tasks=\[\.\.\.\]"),
        ("siblings", {"seeds": "1 2"}, "'seeds' must be an integer, got '1 2'"),
        ("siblings", {"seeds": [True]}, "'seeds' must be an integer, got True"),
        ("siblings", {"tasks": [3]}, "'tasks' must be a string, got 3"),
        ("bodies", {"counts": (0,)}, "'counts' must be numbers of bodies, at least 1, got 0"),
        ("bodies", {"counts": 4}, "--counts takes at least two different numbers .* got '4'"),
        ("bodies", {"counts": [9, 9]}, "at least two different numbers of bodies, .* got '9 9'"),
        ("bodies", {"counts": "many"}, "'counts' must be an integer, got 'many'"),
        ("budget", {"budgets": 3}, "--budgets takes at least two different multiples .* got '3'"),
        ("scaling", {}, r"trains nothing .* with gmc_bench\.studies\.scaling_study\.run"),
    ],
)
def test_what_does_not_fit_a_study_is_refused(tmp_path, study, options, reason):
    with pytest.raises(ConfigError, match=reason):
        studies.run(study, protocol="smoke", out=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_one_task_and_one_seed_need_no_list(monkeypatch):
    asked = {}

    def plan(request, base, **options):
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(StudyRun, "plan", plan)
    with pytest.raises(KeyboardInterrupt):
        studies.run("siblings", tasks="incline", seeds=3)
    assert (asked["tasks"], asked["seeds"]) == (("incline",), (3,))
