"""What a study states of its runs."""

from gmc_bench.records.environment import collect_versions
from gmc_bench.studies.catalogue import COMPONENTS
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.study_run import versions_of
from tests.support.records import make_record


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
