import pytest

from gmc_bench.records.units import _OLDER
from gmc_bench.tasks import TASKS


def test_returns_of_older_records_are_distances_where_every_reward_is_a_speed() -> None:
    found = {name: TASKS.get(name).metres_per_return for name in TASKS.names()}
    metres = {name: value for name, value in found.items() if value is not None}
    assert metres == pytest.approx(_OLDER)
