import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.suites import SUITES
from gmc_bench.suites.unimal import SUITE as UNIMAL


@pytest.mark.parametrize(
    ("name", "bodies", "limbs", "slots"),
    [("larger-bodies", "gmc-large-v1", 30, 30), ("closed-loop", "gmc-loops-v1", 12, 12)],
)
def test_a_suite_on_flat_terrain_under_the_rules_of_the_first(name, bodies, limbs, slots):
    suite = SUITES.load(name)
    assert suite.id == f"{name}-v1"
    assert suite.tasks == ("unimal-ft-v1",)
    assert suite.protocols == UNIMAL.protocols
    assert suite.default_morphologies == (bodies,)
    assert suite.min_token_slots == slots
    assert suite.marks_loops == (name == "closed-loop")


@pytest.mark.slow
def test_larger_bodies_are_as_large_as_in_the_paper():
    bodies = load_morphologies("gmc-large-v1")
    sizes = [body.num_limbs for body in bodies.split("train")]
    assert len(sizes) == 100
    assert max(sizes) <= 30
    assert sum(sizes) / len(sizes) == pytest.approx(25, abs=0.5)
    assert not any(body.loops for split in bodies.splits.values() for body in split)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_fifth_of_the_bodies_of_the_loop_suite_have_loops(split):
    bodies = load_morphologies("gmc-loops-v1").split(split)
    looped = [body for body in bodies if body.loops]
    assert (len(looped), len(bodies)) == (10, 50)
