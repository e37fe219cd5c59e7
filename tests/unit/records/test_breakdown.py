from gmc_bench.records.breakdown import by_limbs, by_loops, direction_means, friction_means
from gmc_bench.records.kinship import (
    by_run,
    content_means,
    geometry,
    geometry_clusters,
    limb_tree,
)
from gmc_bench.records.parts import FrictionResult, LoopResiduals
from gmc_bench.records.summary import summarize
from tests.support.records import make_friction, make_returns

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


def _named(*names):
    return list(make_returns("test", {name: [1.0] for name in names}))


def test_bodies_are_grouped_by_the_run_of_evolution_that_their_names_tell():
    items = _named("floor-2-a", "floor-1-a", "floor-1-b")
    found = by_run(items, [])
    assert {name: [item.body for item in group] for name, group in found.items()} == {
        "floor-1": ["floor-1-a", "floor-1-b"], "floor-2": ["floor-2-a"]
    }  # fmt: skip
    assert by_run([*items, *_named("grown")], []) == {}
    assert by_run(items[1:], []) == {}
    # Up to eight are shown one by one, of more whether a train body is of one.
    many = [f"floor-{number}-a" for number in range(9)]
    assert list(by_run(_named(*many[:8]), [])) == [f"floor-{number}" for number in range(8)]
    known = by_run(_named(*many), _named("floor-3-z"))
    assert {name: len(group) for name, group in known.items()} == {
        "lineage of a train body": 1, "new lineage": 8
    }  # fmt: skip
    assert by_run(_named(*many), []) == {}  # all of one kind


def test_bodies_of_unknown_geometry_are_each_alone():
    first, second, third, fourth = _named("a", "b", "c", "d")
    same = [item.model_copy(update={"geometry": "1" * 16}) for item in (second, fourth)]
    clusters = geometry_clusters([first, same[0], third, same[1]])
    assert clusters[1] == clusters[3]
    assert len(set(clusters.tolist())) == 3


def test_a_body_under_two_names_is_one_content():
    first, other, again = make_returns("test", {"a": [1.0], "b": [5.0], "c": [2.0, 4.0]})
    again = again.model_copy(update={"body_digest": first.body_digest})
    assert content_means([again, other, first]) == {"a": 2.0, "b": 5.0}
    assert len(geometry_clusters([again, other, first])) == 2


def test_the_kin_of_published_bodies_is_known_where_a_record_does_not_state_it():
    (other,) = _named("a")
    digest = "026fb39dc4ded5c6e2502518abeffb363a7add6bfa2f9a8cda50d452590c455d"
    item = other.model_copy(update={"body_digest": digest})
    assert (limb_tree(item), geometry(item)) == ("ab78d2347007327a", "c918c5eb3591ee20")
    stated = item.model_copy(update={"tree": "1" * 16, "geometry": "2" * 16})
    assert (limb_tree(stated), geometry(stated)) == ("1" * 16, "2" * 16)
    assert limb_tree(other) is geometry(other) is None


def test_a_mean_over_robots_needs_a_number_of_each():
    """The second robot has no fall rate."""
    results = [FrictionResult.model_validate(item) for item in make_friction(robots=2)]
    assert friction_means(results)["low"] == {
        "Velocity RMSE (m/s)": 1.5, "Progress (m)": 3.0, "Tilt RMS (degrees)": 3.0,
        "Fall rate (%)": None,
    }  # fmt: skip


def test_other_directions_are_no_part_of_the_frictions():
    ahead = [FrictionResult.model_validate(item) for item in make_friction(robots=1)]
    left = ahead[0].model_copy(update={"direction": "left", "restarts": {"progress": 100.0}})
    alone = friction_means(ahead)
    assert friction_means([*ahead, left]) == alone
    assert alone["low"]["Progress (m)"] == 2.0
    assert direction_means(ahead) == {}
    assert list(direction_means([*ahead, left])) == ["forward", "left"]


def test_a_summary_counts_every_early_end_and_tells_unseen_bodies_apart():
    """Where all bodies are unseen, they have no line of their own."""
    train = make_returns("train", {"a": [50.0, 150.0]})
    test = list(make_returns("test", {"a": [10.0], "c": [30.0], "d": [70.0]}, seen={"a"}))
    fall = {"length": 400, "ended": "diverged"}
    episodes = (test[1].episodes[0], test[1].episodes[0].model_copy(update=fall))
    test[1] = test[1].model_copy(update={"episodes": episodes})
    unseen = "test, deterministic, unseen bodies"
    assert summarize([*train, *test], 0.02) == [
        ["train, deterministic", "1", "100.0", "2.00", "100.0", "100.0", "1,000", "0 %"],
        ["test, deterministic", "3", "36.7", "0.73", "10.0", "70.0", "900", "17 %"],
        [unseen, "2", "50.0", "1.00", "30.0", "70.0", "850", "25 %"],
    ]
    twin = test[2].model_copy(update={"body_digest": test[1].body_digest})
    (row,) = summarize([test[1], twin])
    assert row == ["test, deterministic", "1", "50.0", "-", "50.0", "50.0", "800", "33 %"]


def test_records_of_bodies_of_unknown_size_say_nothing_about_it():
    (item,) = make_returns("test", {"a": [1.0]})
    assert "limbs" not in item.model_dump(mode="json")
    assert item.model_copy(update={"limbs": 7}).model_dump(mode="json")["limbs"] == 7
