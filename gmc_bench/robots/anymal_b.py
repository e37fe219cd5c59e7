"""ANYbotics ANYmal B. Units and frames: see `gmc_bench.robots.parts`.

The maker names the legs LF, RF, LH, RH and the joints HAA (hip), HFE (thigh), KFE (calf).
"""

from gmc_bench.robots import sources as src
from gmc_bench.robots.assembly import (
    JointDynamics,
    Naming,
    Segment,
    build_feet,
    build_links,
    mirrored,
    mirrored_range,
    mirrored_shapes,
    same,
)
from gmc_bench.robots.parts import Base, Gains, Inertial, Pose, Shape
from gmc_bench.robots.schema import Robot

_NAMING = Naming(
    legs=("LF", "RF", "LH", "RH"), bodies=("HIP", "THIGH", "SHANK"), joints=("HAA", "HFE", "KFE")
)
_PLACEHOLDER = (-9.42, 9.42)  # rad; the maker's file sets no limits

_BASE = Base(
    name="base",
    inertial=Inertial(
        mass=16.7935078,
        com=(-0.00196055828, -0.00141321775, 0.0502071253),
        inertia=(
            0.217391102, 0.639432547, 0.624140777, -0.00132873239, -0.00228200226, -0.00138078263
        ),
    ),
    shapes=(
        Shape(kind="box", start=(0.0, 0.0, 0.08), half_extents=(0.2655, 0.135, 0.12)),
        Shape(kind="box", start=(0.0, 0.0, -0.09), half_extents=(0.2655, 0.05, 0.035)),
    ),
)  # fmt: skip

_HIP = Segment(
    position=(0.277, 0.116, 0.0),
    inertials=mirrored(
        Inertial(
            mass=1.42462064,
            com=(0.0645162581, -0.0037871017, -0.000152184388),
            inertia=(
                0.0024302335, 0.00230257239, 0.00198067592,
                -1.53023971e-05, -2.18190954e-05, 2.64730213e-05,
            ),
        )
    ),
    shapes=mirrored_shapes((Shape(kind="sphere", start=(0.0635, -0.009, 0.0), radius=0.08),)),
    ranges=same(_PLACEHOLDER),
    feature_ranges=mirrored_range((-0.72, 0.49), "y"),
    torque_limit=80.0,
    velocity_limit=15.0,
    saturation_torque=120.0,
)  # fmt: skip

_THIGH = Segment(
    position=(0.0635, 0.041, 0.0),
    inertials=mirrored(
        Inertial(
            mass=1.63497647,
            com=(-0.00389796808, 0.0542266185, -0.214583374),
            inertia=(
                0.0120367944, 0.0120643638, 0.00249422575,
                6.76206521e-05, 0.00028780634, -0.00140610131,
            ),
        )
    ),
    shapes=mirrored_shapes(
        (
            Shape(
                kind="capsule",
                start=(0.0, 0.017, -0.0013),
                end=(0.0, 0.053, -0.2487),
                radius=0.035,
            ),
            Shape(kind="sphere", start=(0.0, 0.069, -0.25), radius=0.06),
        )
    ),
    ranges=same(_PLACEHOLDER),
    feature_ranges=mirrored_range((-0.85, 1.65), "x"),
    torque_limit=80.0,
    velocity_limit=15.0,
    saturation_torque=120.0,
)  # fmt: skip

_CALF = Segment(
    position=(0.0, 0.109, -0.25),
    inertials=mirrored(
        Inertial(
            mass=0.347375069,
            com=(0.0587332367, -0.010824396, -0.0980642384),
            inertia=(
                0.00685813394, 0.00770431407, 0.00101942296,
                3.22290298e-05, 0.00142868592, -0.000316237236,
            ),
        )
    ),
    shapes=mirrored_shapes(
        (
            Shape(
                kind="capsule", start=(0.02, -0.015, 0.01), end=(0.1, -0.015, 0.01), radius=0.035
            ),
            Shape(kind="capsule", start=(0.1, -0.02, 0.0), end=(0.1, -0.02, -0.28), radius=0.015),
        )
    ),
    ranges=same(_PLACEHOLDER),
    feature_ranges=mirrored_range((-2.05, 0.45), "x"),
    torque_limit=80.0,
    velocity_limit=15.0,
    saturation_torque=120.0,
)  # fmt: skip

ANYMAL_B = Robot(
    name="anymal-b",
    title="ANYbotics ANYmal B",
    base=_BASE,
    links=build_links(
        (_HIP, _THIGH, _CALF),
        JointDynamics(armature=0.01, damping=0.0, frictionloss=0.1),
        _NAMING,
    ),
    feet=build_feet((0.1, -0.02, -0.298), radius=0.031),
    gains=Gains(kp=80.0, kd=2.0),
    pose=Pose(
        angles=(0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8),
        base_height=0.4968,
        spawn_height=0.6,
    ),
    soft_limit_factor=0.95,
    native_orders={
        "urdf": _NAMING.joint_order(("LF", "RF", "LH", "RH")),
        "menagerie": _NAMING.joint_order(("LF", "RF", "LH", "RH")),
        "isaaclab": _NAMING.joint_order(("LF", "LH", "RF", "RH"), by_leg=False),
    },
    sources={
        "base": f"{src.URDF_ANYMAL_B}, link base_inertia; {src.MENAGERIE_ANYMAL_B} has 19.2035 kg, "
        "of unknown origin",
        "hip": f"{src.URDF_ANYMAL_B}; same in Menagerie",
        "thigh": f"{src.URDF_ANYMAL_B}; same in Menagerie",
        "calf": f"derived from {src.URDF_ANYMAL_B}: SHANK 0.207204 kg and ADAPTER 0.140171 kg; "
        "Menagerie adds 0.124788 kg, the foot sphere weighed as mass. Front left mirrored; the "
        "file's other legs differ by less than 1e-8",
        "foot": f"{src.URDF_ANYMAL_B}, {src.MENAGERIE_ANYMAL_B}",
        "shapes": f"upper box {src.URDF_ANYMAL_B}; the others chosen here, simpler than its own",
        "imu": "not published; the base's origin is chosen here",
        "drive": f"{src.URDF_ANYMAL_B}, effort 80 and velocity 15; uncertain, as Menagerie clips "
        f"at 40 N m; saturation {src.ISAACLAB_ANYMAL}",
        "feature_ranges": "chosen here, as the maker's range is a placeholder: hip of ANYmal C "
        f"({src.URDF_ANYMAL_C}), thigh and calf 1.25 rad about the stance",
        "joint_dynamics": f"armature {src.ISAACLAB_ARMATURE}, stated for ANYmal C; dry friction "
        f"{src.MENAGERIE_ANYMAL_B}; no damping, as the drive has its own",
        "gains": f"{src.LEGGED_GYM}, ANYmal setting without its actuator network",
        "pose": src.ISAACLAB_ANYMAL,
        "heights": f"base height derived by forward kinematics; spawn {src.ISAACLAB_ANYMAL}",
        "soft_limit_factor": src.ISAACLAB_ANYMAL,
        "native_orders": f"{src.URDF_ANYMAL_B}, {src.ISAACLAB_ANYMAL_ORDER}",
    },
)
