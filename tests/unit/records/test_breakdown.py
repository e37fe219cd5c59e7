from gmc_bench.records.breakdown import by_limbs, by_loops
from gmc_bench.records.parts import LoopResiduals
from tests.support.records import make_returns

RESIDUALS = LoopResiduals(
    largest=0.01, median=0.002, percentile_99_9=0.009, largest_angle=0.0, opened=0, samples=1000
)


def _items(*sizes):
    returns = make_returns("test", {f"body-{k}": [float(k)] for k in range(len(sizes))})
    return [
        item.model_copy(update={"limbs": size}) for item, size in zip(returns, sizes, strict=True)
    ]


def test_bodies_of_unlike_sizes_are_grouped_by_five():
    groups = by_limbs(_items(24, 9, 30, 20, 5))
    assert list(groups) == ["5 to 9 limbs", "20 to 24 limbs", "30 to 34 limbs"]
    assert [item.body for item in groups["5 to 9 limbs"]] == ["body-4", "body-1"]
    assert [item.limbs for item in groups["20 to 24 limbs"]] == [20, 24]


def test_bodies_of_like_or_unknown_sizes_are_not_grouped():
    assert by_limbs(_items(5, 14)) == {}
    assert by_limbs(_items(5, 15)) != {}
    assert by_limbs(_items(5, None, 30)) == {}
    assert by_limbs([]) == {}


def test_trees_stand_apart_from_loops():
    items = _items(5, 6, 7)
    items[1] = items[1].model_copy(update={"loops": RESIDUALS})
    groups = by_loops(items)
    assert [item.body for item in groups["trees"]] == ["body-0", "body-2"]
    assert [item.body for item in groups["closed loops"]] == ["body-1"]
    assert by_loops(items[1:2]) == {}
    assert by_loops(items[2:]) == {}


def test_records_of_bodies_of_unknown_size_say_nothing_about_it():
    (item,) = make_returns("test", {"a": [1.0]})
    assert "limbs" not in item.model_dump(mode="json")
    assert item.model_copy(update={"limbs": 7}).model_dump(mode="json")["limbs"] == 7
