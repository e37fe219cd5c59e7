"""Kinship of bodies: which share a limb tree, and which a geometry."""

from dataclasses import replace
from typing import Any

import pytest

from gmc_bench.bodies.kinship import geometry, limb_tree
from gmc_bench.bodies.schema import Geom, Morphology
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.records.kinship import _published, evolution_run


@pytest.fixture(scope="module")
def body() -> Morphology:
    found = load_morphologies("gmc-unimal-mini-v1").split("train")[0]
    assert isinstance(found, Morphology)
    return found


def test_masses_joints_and_motors_leave_the_geometry(body: Morphology) -> None:
    limbs = tuple(
        replace(limb, geom=replace(limb.geom, density=2.0 * limb.geom.density), name=f"x{number}")
        for number, limb in enumerate(body.limbs)
    )
    motors = tuple(replace(motor, gear=2.0 * motor.gear) for motor in body.actuators)
    heavy = replace(body, limbs=limbs, actuators=motors)
    assert heavy.digest != body.digest
    assert (limb_tree(heavy), geometry(heavy)) == (limb_tree(body), geometry(body))


def test_a_longer_limb_leaves_the_tree_only(body: Morphology) -> None:
    *others, last = body.limbs
    thick = replace(last, geom=replace(last.geom, radius=1.1 * last.geom.radius))
    wide = replace(body, limbs=(*others, thick))
    assert limb_tree(wide) == limb_tree(body)
    assert geometry(wide) != geometry(body)


def test_kinship_stays_what_records_state(body: Morphology) -> None:
    """With other digests, later records would call this body another than earlier ones do."""
    assert body.name == "grown-00002"
    assert (limb_tree(body), geometry(body)) == ("f18aa12981a50ce2", "b3a81d766f3a1f8e")


def test_sizes_count_to_a_micrometre(body: Morphology) -> None:
    def longer(by: float) -> str:
        torso, first, *others = body.limbs
        x, y, z = first.position
        moved = replace(first, position=(x, y, z + by))
        return geometry(replace(body, limbs=(torso, moved, *others)))

    assert longer(4e-7) == geometry(body) != longer(6e-7)


def test_the_sign_of_zero_does_not_count() -> None:
    body = chain(2)
    torso, limb = body.limbs
    assert limb.position[1] == 0.0
    digests = set()
    for zero in (0.0, -0.0):
        moved = replace(limb, position=(limb.position[0], zero, limb.position[2]))
        digests.add(geometry(replace(body, limbs=(torso, moved))))
    assert len(digests) == 1


def test_all_shapes_of_a_limb_count_and_how_they_are_turned() -> None:
    box = Geom(kind="box", radius=0.3, half_sizes=(0.1, 0.2, 0.3))
    ball = Geom(kind="sphere", radius=0.1)
    turned = (0.5, 0.5, -0.5, 0.5)

    def of(**changes: Any) -> str:
        torso, limb = chain(2).limbs
        return geometry(replace(chain(2), limbs=(torso, replace(limb, **changes))))

    shapes = [
        of(),
        of(orientation=turned),
        of(more_geoms=(box,)),
        of(more_geoms=(box, box)),
        of(more_geoms=(replace(box, half_sizes=(0.1, 0.25, 0.3)),)),
        of(more_geoms=(replace(box, orientation=turned),)),
        of(more_geoms=(ball, box)),
        of(more_geoms=(replace(ball, start=(0.1, 0.0, 0.0), end=(0.1, 0.0, 0.0)), box)),
    ]
    assert len(set(shapes)) == len(shapes)
    assert of(more_geoms=(box, ball)) == of(more_geoms=(ball, box))


def test_a_long_chain_has_its_kinship_at_once() -> None:
    """Without a bound, the text doubles with each limb: petabytes here."""
    long, longer = chain(60), chain(61)
    assert limb_tree(long) == limb_tree(chain(60)) != limb_tree(longer)
    assert geometry(long) == geometry(chain(60)) != geometry(longer)


@pytest.mark.slow
def test_published_bodies_have_the_kin_that_is_stored() -> None:
    try:
        found = load_morphologies("unimals_100")
    except GmcBenchError:
        pytest.skip("unimals_100 is not imported")
    bodies = [body for split in ("train", "test") for body in found.split(split)]
    kin = {body.digest: (limb_tree(body), geometry(body)) for body in bodies}  # type: ignore[arg-type]
    assert kin == _published()


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("floor-5506-12-14-01-15-22-01", "floor-5506"),
        ("evolved-00012.31.240", "evolved-00012"),
        ("grown-00001", None),
        ("go1", None),
    ],
)
def test_names_tell_the_run_of_evolution(name: str, run: str | None) -> None:
    assert evolution_run(name) == run
