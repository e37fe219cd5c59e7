import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.bodies import Actuator, Geom, Joint, Limb, Loop, Morphology, MorphologySet
from gmc_bench.bodies.mjcf import check_compiles, emit_mjcf
from gmc_bench.bodies.parts import Inertia
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError, MorphologyError, MorphologySetError

SPHERE = Geom(kind="sphere", radius=0.1)
ROD = Geom(kind="capsule", radius=0.05, end=(0.3, 0.0, 0.0), density=900.0)


def hinge(name, slot=0, **changes):
    plain = Joint(name=name, axis=(1, 0, 0), position=(0, 0, 0), range=(-1.0, 1.0), slot=slot)
    return replace(plain, **changes)


def limb(name, parent, *joints, **changes):
    plain = Limb(name=name, parent=parent, position=(0.1, 0.0, 0.0), geom=ROD, joints=joints)
    return replace(plain, **changes)


TORSO = Limb(name="torso", parent=-1, position=(0.0, 0.0, 0.5), geom=SPHERE)
MOTOR = Actuator(joint="hip", gear=150.0)


def body(*limbs, motors=(MOTOR,), **changes):
    return Morphology(name="b", limbs=limbs, actuators=motors, **changes)


def leg(**changes):
    """Return a torso with one driven leg whose hinge or shape is changed."""
    return body(TORSO, limb("leg", 0, hinge("hip", **changes)))


def box(**changes):
    plain = Geom(kind="box", radius=0.3, half_sizes=(0.1, 0.2, 0.3))
    return replace(plain, **changes)


def inertia(**changes):
    plain = Inertia(mass=1.0, centre=(0.0, 0.0, 0.0), moments=(0.01, 0.01, 0.01))
    return replace(plain, **changes)


# --- sizes


def test_counts_of_a_small_tree():
    two_armed = body(
        TORSO,
        limb("arm", 0, hinge("hip"), hinge("roll", slot=1)),
        limb("hand", 1, hinge("wrist", slot=1)),
        limb("tail", 0),
        motors=(MOTOR, Actuator(joint="wrist", gear=100.0)),
    )
    assert two_armed.num_limbs == 4
    assert two_armed.num_joints == 3
    assert two_armed.num_actuators == 2
    assert two_armed.joints_per_limb == 2
    assert two_armed.parents == (-1, 0, 1, 0)
    assert two_armed.depth == 2


def test_a_late_slot_counts_even_if_the_earlier_ones_are_empty():
    assert leg(slot=2).joints_per_limb == 3


# --- what is not a body

BAD_BODIES = {
    "has no limbs": lambda: body(),
    "starts with 'leg', which has a parent": lambda: body(limb("leg", 0, hinge("hip"))),
    "is not a tree: limb 'leg' has parent 1": lambda: body(TORSO, limb("leg", 1, hinge("hip"))),
    "is not a tree: limb 'leg' has parent -1": lambda: body(TORSO, limb("leg", -1, hinge("hip"))),
    "is not in depth-first order at limb 'c'": lambda: body(
        TORSO, limb("a", 0, hinge("hip")), limb("b", 0), limb("c", 1)
    ),
    "has the limb name 'leg' twice": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), limb("leg", 0)
    ),
    "has hinges on its torso": lambda: body(
        replace(TORSO, joints=(hinge("free"),)), limb("leg", 0, hinge("hip"))
    ),
    "has the joint name 'hip' twice": lambda: body(
        TORSO, limb("a", 0, hinge("hip")), limb("b", 0, hinge("hip"))
    ),
    r"in the slots \[0, 0\]; each needs its own": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), hinge("roll"))
    ),
    r"in the slots \[-1\]": lambda: leg(slot=-1),
    r"in the slots \[1.0\]; expected an int each": lambda: leg(slot=1.0),
    r"in the slots \[np.int64\(1\)\]; expected an int": lambda: leg(slot=np.int64(1)),
    r"in the slots \[None\]; expected an int": lambda: leg(slot=None),
    r"in the slots \[True\]; expected an int": lambda: leg(slot=True),
    "has 'torso' as parent of limb 'leg'": lambda: body(TORSO, limb("leg", "torso", hinge("hip"))),
    "has 'ball' as kind of joint 'hip'; expected one of hinge, slide": lambda: leg(kind="ball"),
    "has 'mesh' as kind of a shape of limb 'leg'; expected one of sphere, caps": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), more_geoms=(replace(SPHERE, kind="mesh"),))
    ),
    "has 'joint' as kind of the loop of 0 and 2; expected one of connect, weld": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip")),
        limb("foot", 1),
        loops=(Loop(first=0, second=2, anchor=(0.0, 0.0, 0.0), kind="joint"),),
    ),
    "has no actuators": lambda: body(TORSO, limb("leg", 0, hinge("hip")), motors=()),
    "has the actuated joint name 'hip' twice": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=(MOTOR, MOTOR)
    ),
    r"drives the joint 'hipp', which does not exist; did you mean 'hip'\?": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=(Actuator(joint="hipp", gear=1.0),)
    ),
    "lists its motors in another order than its joints": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip"), hinge("roll", slot=1)),
        motors=(Actuator(joint="roll", gear=1.0), MOTOR),
    ),
    "has gear 0.0 at 'hip'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=(Actuator(joint="hip", gear=0.0),)
    ),
    r"has None as limbs; expected Limb\(...\), several as a tuple": lambda: Morphology(
        name="b", limbs=None, actuators=(MOTOR,)
    ),
    r"has '1' as radius in its geom of limb 'torso'; expected a number": lambda: body(
        replace(TORSO, geom=replace(SPHERE, radius="1")), limb("leg", 0, hinge("hip"))
    ),
    r"has None as geom of limb 'torso'; expected Geom": lambda: body(
        replace(TORSO, geom=None), limb("leg", 0, hinge("hip"))
    ),
    r"has Geom\(.*\) as more_geoms of limb 'torso'; expected Geom": lambda: body(
        replace(TORSO, more_geoms=SPHERE), limb("leg", 0, hinge("hip"))
    ),
    r"has 'hip 1' as actuators; expected Actuator": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=("hip 1",)
    ),
    r"has '1' as contype in its geom of limb 'torso'; expected an int": lambda: body(
        replace(TORSO, geom=replace(SPHERE, contype="1")), limb("leg", 0, hinge("hip"))
    ),
    r"has 0.0 as first in its loops; expected an int": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip")),
        limb("foot", 1),
        loops=(Loop(first=0.0, second=2, anchor=(0.0, 0.0, 0.0)),),
    ),
    r"has \(0.0, 0.0\) as anchor at the loop of limb 0; expected a tuple of 3": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip")),
        limb("foot", 1),
        loops=(Loop(first=0, second=2, anchor=(0.0, 0.0)),),
    ),
    r"has \(\(1,\),\) as symmetric_limbs; expected a tuple of pairs of ints": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), symmetric_limbs=((1,),)
    ),
    r"has \(\(0, 'a'\),\) as exclusions; expected a tuple of pairs": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), exclusions=((0, "a"),)
    ),
    "starts with 'torso', which has a parent": lambda: body(
        replace(TORSO, parent=-1.0), limb("leg", 0, hinge("hip"))
    ),
    r"has 'no' as limited in its joints of limb 'leg'; expected True or False": lambda: leg(
        limited="no"
    ),
    r"has \('0', 1.0\) as range at limb 'leg'; expected a tuple of 2 numbers": lambda: leg(
        range=("0", 1.0)
    ),
    "has an empty limb name; each needs a name": lambda: body(TORSO, limb("", 0, hinge("hip"))),
    "has an empty joint name; each needs a name": lambda: body(TORSO, limb("leg", 0, hinge(""))),
    r"has the limb name 'le\\x00g', which cannot be written into a file; rename it": lambda: body(
        TORSO, limb("le\0g", 0, hinge("hip"))
    ),
    r"has the joint name 'hip\\ud800', which cannot be written into a file": lambda: body(
        TORSO, limb("leg", 0, hinge("hip\ud800"))
    ),
    r"has the limb name 'le\\x01g', which cannot be written into a file": lambda: body(
        TORSO, limb("le\1g", 0, hinge("hip"))
    ),
    r"has the joint name 'hip\\ufffe', which cannot be written into a file": lambda: body(
        TORSO, limb("leg", 0, hinge("hip\ufffe"))
    ),
    r"excludes contacts of the limbs \(0, 2\) 2 times; once is enough": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip")),
        limb("foot", 1),
        exclusions=((0, 2), (1, 2), (0, 2)),
    ),
    "has gear nan at 'hip'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=(Actuator(joint="hip", gear=math.nan),)
    ),
    "has gear 1000000": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), motors=(Actuator(joint="hip", gear=10**400),)
    ),
    r"has the range \(1.0, -1.0\) at joint 'hip'": lambda: leg(range=(1.0, -1.0)),
    r"has the range \(0.5, 0.5\)": lambda: leg(range=(0.5, 0.5)),
    "has a zero axis at joint 'hip'": lambda: leg(axis=(0.0, 0.0, 0.0)),
    "has damping -1.0, .*none may be negative": lambda: leg(damping=-1.0),
    "has True as damping in its joints of limb 'leg'; expected a number": lambda: leg(damping=True),
    "stiffness -2.0": lambda: leg(stiffness=-2.0),
    "armature -3.0": lambda: leg(armature=-3.0),
    "at joint 'hip'; none may be negative, nor its friction": lambda: leg(friction_loss=-0.1),
    r"has mass 0 and moments .* at limb 'leg'; all must be positive": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(mass=0))
    ),
    r"moments of inertia \(0.01, 0.0, 0.01\) at limb 'leg'; all must be positive": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(moments=(0.01, 0.0, 0.01)))
    ),
    r"moments of inertia \(1.0, 1.0, 5.0\) at limb 'leg'; no body has one that is larger than": (
        lambda: body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(moments=(1.0, 1.0, 5.0))))
    ),
    r"\(0.3000001, 0.2, 0.1\) at limb 'leg'; no body has one that is larger than the sum": (
        lambda: body(
            TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(moments=(0.3000001, 0.2, 0.1)))
        )
    ),
    r"has the orientation \(0.0, .*\) of length 0 at limb 'torso'; expected a unit quat.*n$": (
        lambda: body(replace(TORSO, orientation=(0.0, 0.0, 0.0, 0.0)), limb("leg", 0, hinge("hip")))
    ),
    "of length 0.707106781 at limb 'leg'; .* this one divided by its length": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), orientation=(0.5, 0.5, 0.0, 0.0))
    ),
    "of length 2 at a shape of limb 'leg'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), more_geoms=(box(orientation=(0.0, 2.0, 0.0, 0.0)),))
    ),
    "of length 1.000002 at the inertia of limb 'leg'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(orientation=(1.000002, 0.0, 0.0, 0.0)))
    ),
    "has radius 0 and density 1000.0 at limb 'torso'": lambda: body(
        replace(TORSO, geom=replace(SPHERE, radius=0)), limb("leg", 0, hinge("hip"))
    ),
    "has radius 0.05 and density -900": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, density=-900))
    ),
    "has radius 0.05 and density 0 at limb 'leg'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, density=0))
    ),
    "has a box with two ends at limb 'leg'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), geom=box(start=(0.1, 0.0, 0.0)))
    ),
    "has a capsule without length at limb 'leg'": lambda: body(
        TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, end=ROD.start))
    ),
    "has a sphere with two ends at limb 'torso'": lambda: body(
        replace(TORSO, geom=replace(SPHERE, start=(0.1, 0.0, 0.0))), limb("leg", 0, hinge("hip"))
    ),
    r"has the symmetric pair \(0, 1\)": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), symmetric_limbs=((0, 1),)
    ),
    r"has the symmetric pair \(1, 2\); .* from 1 to 1": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), symmetric_limbs=((1, 2),)
    ),
    "has limb 2 in 2 symmetric pairs; a limb has one mirror image": lambda: body(
        TORSO,
        limb("leg", 0, hinge("hip")),
        limb("foot", 1),
        limb("toe", 2),
        symmetric_limbs=((1, 2), (2, 3)),
    ),
    r"has the symmetric pair \(1, 1\)": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), symmetric_limbs=((1, 1),)
    ),
    r"has the symmetric pair \(1, -1\)": lambda: body(
        TORSO, limb("leg", 0, hinge("hip")), symmetric_limbs=((1, -1),)
    ),
}


@pytest.mark.parametrize(("reason", "make"), BAD_BODIES.items(), ids=BAD_BODIES.keys())
def test_what_is_not_a_body_is_refused_by_name(reason, make):
    with pytest.raises(MorphologyError, match=f"^body 'b' .*{reason}"):
        make()


def test_moments_of_a_flat_body_are_accepted():
    flat = inertia(moments=(0.1, 0.2, 0.1 + 0.2))
    check_compiles(body(TORSO, limb("leg", 0, hinge("hip"), inertia=flat)))


def test_a_quaternion_of_rounded_numbers_is_accepted():
    turned = (0.7071068, 0.0, 0.0, -0.7071068)  # length 1.0000000265
    parts = {"orientation": turned, "more_geoms": (box(orientation=turned),)}
    body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(orientation=turned), **parts))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: leg(axis=(1.0, x, 0.0)),
        lambda x: leg(position=(0.0, 0.0, x)),
        lambda x: leg(range=(-1.0, abs(x))),
        lambda x: leg(damping=x),
        lambda x: leg(stiffness=x),
        lambda x: leg(armature=x),
        lambda x: leg(spring_reference=x),
        lambda x: leg(friction_loss=x),
        lambda x: body(replace(TORSO, position=(0.0, 0.0, x)), limb("leg", 0, hinge("hip"))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), orientation=(1.0, 0.0, 0.0, x))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=box(orientation=(x, x, x, x)))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(orientation=(x,) * 4))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=box(half_sizes=(0.1, x, 0.3)))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(mass=x))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(centre=(0.0, x, 0.0)))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), inertia=inertia(moments=(x, 0.1, 0.1)))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, radius=x))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, density=x))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, start=(x, 0, 0)))),
        lambda x: body(TORSO, limb("leg", 0, hinge("hip"), geom=replace(ROD, end=(0, x, 0)))),
    ],
)
@pytest.mark.parametrize("number", [math.nan, math.inf, 10**400])
def test_numbers_must_be_finite(make, number):
    with pytest.raises(MorphologyError, match="has a number that is not finite at limb"):
        make(number)


# --- content hash


def changed_limb(index, **changes):
    """Return `biped` with fields of one limb changed."""
    plain = biped()
    limbs = list(plain.limbs)
    limbs[index] = replace(limbs[index], **changes)
    return replace(plain, limbs=tuple(limbs))


def changed_joint(**changes):
    first, *rest = biped().limbs[2].joints
    return changed_limb(2, joints=(replace(first, **changes), *rest))


def changed_geom(**changes):
    return changed_limb(2, geom=replace(biped().limbs[2].geom, **changes))


CHANGED_BODIES = {
    "axis": changed_joint(axis=(1.0, 0.0, 0.1)),
    "anchor": changed_joint(position=(0.0, 0.0, 0.01)),
    "range": changed_joint(range=(-1.0, 0.5)),
    "slot": changed_joint(slot=0),
    "damping": changed_joint(damping=2.0),
    "stiffness": changed_joint(stiffness=2.0),
    "armature": changed_joint(armature=2.0),
    "radius": changed_geom(radius=0.06),
    "start": changed_geom(start=(0.0, 0.0, 0.01)),
    "end": changed_geom(end=(0.0, 0.0, -0.5)),
    "density": changed_geom(density=901.0),
    "kind": changed_geom(kind="sphere", end=(0.0, 0.0, 0.0)),
    "position": changed_limb(2, position=(0.0, 0.0, -0.4)),
    "orientation": changed_limb(2, orientation=(0.0, 1.0, 0.0, 0.0)),
    "parent": changed_limb(2, parent=0),
    "missing motor": replace(biped(), actuators=biped().actuators[:-1]),
    "gear": replace(
        biped(), actuators=(Actuator(joint="limbx/1", gear=1.0), *biped().actuators[1:])
    ),
    "missing limbs": replace(
        biped(), limbs=biped().limbs[:3], actuators=biped().actuators[:3], symmetric_limbs=()
    ),
}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: leg(axis=np.array([1.0, 0.0, 0.0])), r"has array\(.*\) as axis at limb 'leg'"),
        (lambda: leg(range=(1.0,)), r"\(1.0,\) as range at limb 'leg'; expected a tuple of 2"),
        (lambda: body(TORSO, limb("leg", 0, hinge("hip"), orientation=np.eye(4)[0])),
         "as orientation at limb 'leg'; expected a tuple of 4 numbers"),
        (lambda: body(TORSO, limb("leg", 0, hinge("hip"), position=[0, 0, 1])), "as position at"),
        (lambda: body(TORSO, limb("leg", 0, hinge("hip")),
                      motors=(replace(MOTOR, torque_range=np.ones(2)),)),
         "as torque_range at the motor of 'hip'; expected a tuple of 2"),
    ],
)  # fmt: skip
def test_vectors_that_are_no_tuples_are_refused(make, reason):
    with pytest.raises(MorphologyError, match=reason):
        make()


def test_numbers_may_be_numpys():
    plain = body(TORSO, limb("leg", 0, hinge("hip", damping=0.3)), motors=(MOTOR,))
    x, y = np.array([0.1, 0.0])
    mixed = body(
        TORSO,
        limb("leg", 0, hinge("hip", damping=np.float64(0.3)), position=(x, y, y)),
        motors=(replace(MOTOR, gear=np.float64(150)),),
    )
    assert mixed == plain
    assert mixed.digest == plain.digest
    assert emit_mjcf(mixed) == emit_mjcf(plain)
    check_compiles(mixed)


@pytest.mark.parametrize("other", CHANGED_BODIES.values(), ids=CHANGED_BODIES.keys())
def test_everything_that_moves_the_physics_changes_the_digest(other):
    assert other.digest != biped().digest


def test_names_and_symmetry_do_not_change_the_digest():
    renamed = Morphology(
        name="other",
        limbs=tuple(
            replace(
                part,
                name=part.name.replace("limb", "leg"),
                joints=tuple(replace(joint, name=f"j-{joint.name}") for joint in part.joints),
            )
            for part in biped().limbs
        ),
        actuators=tuple(replace(motor, joint=f"j-{motor.joint}") for motor in biped().actuators),
    )
    assert renamed.digest == biped().digest


def test_the_digest_ignores_rounding_noise_and_the_sign_of_zero():
    noisy = changed_limb(0, position=(-0.0, 1e-12, biped().limbs[0].position[2]))
    assert noisy.digest == biped().digest
    assert len(noisy.digest) == 64


def test_the_digest_is_pinned():
    # Records refer to bodies by this hash: a new value would orphan every stored result.
    assert leg().digest == "bd5490c14a60b6909be650d7da2af2b1e508b35b98f3bf934f959137c54ed86b"


# --- sets


def morphology_set(train, test, **changes):
    return MorphologySet(id="s-v1", splits={"train": train, "test": test}, source="here", **changes)


def test_sizes_of_a_set_are_the_largest_of_any_split():
    bodies = morphology_set((chain(3), star(2)), (chain(7),))
    assert bodies.max_limbs == 7
    assert bodies.joints_per_limb == 2


def test_test_bodies_with_the_content_of_a_train_body_are_seen():
    bodies = morphology_set((chain(3), biped()), (replace(biped(), name="twin"), star(3)))
    assert bodies.seen_in_train == frozenset({"twin"})


def test_duplicates_are_groups_of_names_within_one_split():
    twins = (chain(3), replace(chain(3), name="copy"), star(3))
    bodies = morphology_set(twins, (chain(3),))
    assert bodies.duplicates("train") == [["chain-3", "copy"]]
    assert bodies.duplicates("test") == []


def test_a_set_does_not_change_with_the_mapping_and_lists_that_it_was_made_of():
    splits = {"train": [chain(3)], "test": [star(3)]}
    bodies = MorphologySet(id="s-v1", splits=splits, source="here")
    digest = bodies.digest
    splits["train"].append(biped())
    splits["test"] = [biped()]
    assert bodies == replace(bodies, splits={"train": (chain(3),), "test": (star(3),)})
    assert digest == MorphologySet(id="s-v1", splits=dict(bodies.splits), source="here").digest
    with pytest.raises(ConfigError, match="cannot be changed in place"):
        bodies.splits["train"] = (biped(),)
    assert pickle.loads(pickle.dumps(bodies)) == copy.deepcopy(bodies) == bodies


def test_the_set_digest_depends_on_names_order_split_and_content():
    plain = morphology_set((chain(3), star(3)), (biped(),))
    others = [
        morphology_set((star(3), chain(3)), (biped(),)),
        morphology_set((chain(3), replace(star(3), name="renamed")), (biped(),)),
        morphology_set((chain(3), replace(star(4), name="star-3")), (biped(),)),
        morphology_set((chain(3),), (star(3), biped())),
    ]
    assert len({plain.digest, *(other.digest for other in others)}) == 5
    assert plain.digest == morphology_set((chain(3), star(3)), (biped(),), notes=("n",)).digest


@pytest.mark.parametrize("name", ["", None, 3, "a\nb", "a\ud800b", "x" * 256])
def test_names_of_bodies_are_printable_text(name):
    with pytest.raises(MorphologyError, match="is no name of a body; expected printable text"):
        replace(chain(3), name=name)
    assert replace(chain(3), name="x" * 255)


@pytest.mark.parametrize("set_id", ["Bad Id", "", 3, None, "a/b"])
def test_ids_of_sets_are_plain_words(set_id):
    with pytest.raises(MorphologySetError, match="cannot be the id of a set; expected lower-case"):
        replace(morphology_set((chain(3),), (biped(),)), id=set_id)


@pytest.mark.parametrize("name", ["source", "licence"])
def test_source_and_licence_of_a_set_are_text(name):
    with pytest.raises(MorphologySetError, match=f"'s-v1' has None as its {name}; expected text"):
        replace(morphology_set((chain(3),), (biped(),)), **{name: None})


def test_notes_of_a_set_are_sentences_and_not_the_letters_of_one():
    bodies = morphology_set((chain(3),), (biped(),))
    for notes in ("Grown by hand.", None, (3,)):
        with pytest.raises(MorphologySetError, match="as its notes; expected a tuple of sentences"):
            replace(bodies, notes=notes)
    assert replace(bodies, notes=["Grown by hand."]).notes == ("Grown by hand.",)


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ((), (biped(),), "has no train bodies"),
        (("chain",), (biped(),), r"has 'chain' in its train split; expected bodies, such as"),
        ((biped(),), (), "has no test bodies"),
        ((biped(), biped()), (biped(),), "repeats a body name in its train split"),
    ],
)
def test_incomplete_sets_are_refused(train, test, reason):
    with pytest.raises(MorphologySetError, match=f"the set 's-v1' {reason}"):
        morphology_set(train, test)


@pytest.mark.parametrize(
    ("splits", "reason"),
    [
        (3, r"has 3 as its splits; expected a mapping of 'train' and 'test' to tuples of bodies"),
        (None, "has None as its splits; expected"),
        (
            {"train": biped(), "test": (biped(),)},
            r"has Morphology\(.* as its train split; expected",
        ),
        (
            {"train": (biped(),), "test": biped()},
            r"has Morph.* as its test split; expected a tuple .*\(body,\)",
        ),
        ({"train": "biped", "test": (biped(),)}, "has 'biped' as its train split; expected"),
    ],
)
def test_splits_that_are_no_tuples_of_bodies_are_refused(splits, reason):
    """A single body without its tuple, above all."""
    with pytest.raises(MorphologySetError, match=f"^the set 's-v1' {reason}"):
        replace(morphology_set((chain(3),), (biped(),)), splits=splits)


def test_an_unknown_split_is_refused_with_a_suggestion():
    bodies = morphology_set((chain(3),), (biped(),))
    assert bodies.split("test") == (biped(),)
    with pytest.raises(MorphologySetError, match=r"no split 'tests'; did you mean 'test'\?"):
        bodies.split("tests")


def _looped(body, **changed):
    loop = Loop(**{"first": 1, "second": body.num_limbs - 1, "anchor": (0.1, 0.0, 0.0), **changed})
    return replace(body, loops=(loop,))


@pytest.fixture
def tree():
    return biped()


def test_loops_count_in_the_hash_and_bodies_without_keep_theirs(tree):
    assert _looped(tree).digest != tree.digest
    assert _looped(tree, kind="weld").digest != _looped(tree).digest
    assert _looped(tree, anchor=(0.2, 0.0, 0.0)).digest != _looped(tree).digest
    assert replace(_looped(tree), loops=()).digest == tree.digest


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"second": 5}, "both must be different limbs from 0 to 4"),
        ({"second": 1}, "both must be different limbs from 0 to"),
        ({"first": -1, "second": 1}, "both must be different limbs from 0 to"),
        ({"first": 0, "second": 1}, "and its parent; a loop joins limbs that no joint joins"),
        ({"first": 1, "second": 0}, "and its parent; a loop joins limbs that no joint joins"),
        ({"anchor": (float("nan"), 0.0, 0.0)}, "it must be finite"),
    ],
)
def test_impossible_loops_are_refused(tree, changed, reason):
    with pytest.raises(MorphologyError, match=reason):
        _looped(tree, **changed)


def test_a_loop_is_listed_once(tree):
    loop = _looped(tree).loops[0]
    other = replace(loop, first=loop.second, second=loop.first)
    with pytest.raises(MorphologyError, match="two loops between the limbs"):
        replace(tree, loops=(loop, other))
