"""ANYbotics ANYmal C. Units and frames: see `gmc_bench.robots.parts`.

The maker names the legs LF, RF, LH, RH and the joints HAA (hip), HFE (thigh), KFE (calf). Its link
frames are rotated; here they are aligned with the base, with the same joint angles.
"""

from gmc_bench.robots import sources as src
from gmc_bench.robots.assembly import (
    JointDynamics,
    Naming,
    Segment,
    build_feet,
    build_links,
    half_turned,
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
_PLACEHOLDER = (-9.42477796077, 9.42477796077)  # rad, 3 pi; the maker's file sets no limits

_BASE = Base(
    name="base",
    inertial=Inertial(
        mass=26.37317,
        com=(-0.0177939431, -0.000178169613, 0.00850433902),
        inertia=(
            0.216711743, 1.78516169, 1.83369945, 0.00922381131, 0.0589331887, -0.000163778017
        ),
    ),
    shapes=(
        Shape(kind="box", start=(0.0, 0.0, 0.0), half_extents=(0.5245, 0.07, 0.09)),
        Shape(kind="capsule", start=(-0.4345, 0.07, 0.0), end=(0.4345, 0.07, 0.0), radius=0.09),
        Shape(kind="capsule", start=(-0.4345, -0.07, 0.0), end=(0.4345, -0.07, 0.0), radius=0.09),
    ),
    imu=(0.2488, 0.00835, 0.04628),
)  # fmt: skip

_HIP = Segment(
    position=(0.2999, 0.104, 0.0),
    inertials=half_turned(
        Inertial(
            mass=2.781,
            com=(0.0566606257, 0.0173938871, -0.000460841424),
            inertia=(
                0.00329552643, 0.0049382999, 0.00583295323,
                -4.45346426e-05, -9.79127299e-05, 0.00013580889,
            ),
        ),
        Inertial(
            mass=2.781,
            com=(0.0567633225, -0.0173938871, -0.000460841424),
            inertia=(
                0.00329552643, 0.0049401209, 0.00583477423,
                -4.50297155e-05, 0.000100004278, -0.00013580889,
            ),
        ),
    ),
    shapes=mirrored_shapes(
        (
            Shape(
                kind="capsule",
                start=(0.0599, -0.00619, 0.0),
                end=(0.0599, 0.03381, 0.0),
                radius=0.05,
            ),
        )
    ),
    ranges=mirrored_range((-0.72, 0.49), "y"),
    torque_limit=80.0,
    velocity_limit=7.5,
    saturation_torque=120.0,
)  # fmt: skip

_THIGH = Segment(
    position=(0.0599, 0.08381, 0.0),
    inertials=half_turned(
        Inertial(
            mass=3.071,
            com=(-4.64995118e-05, 0.0308147183, -0.245695734),
            inertia=(
                0.0299040493, 0.0295637935, 0.00486108453,
                -4.42919018e-05, -9.44799612e-05, 0.00414242595,
            ),
        ),
        Inertial(
            mass=3.071,
            com=(4.64995114e-05, -0.0308147183, -0.245695734),
            inertia=(
                0.0299040493, 0.0295637935, 0.00486108453,
                -4.43959018e-05, 0.000114793961, -0.00414242595,
            ),
        ),
    ),
    shapes=mirrored_shapes(
        (
            Shape(kind="capsule", start=(0.0, 0.03, 0.0), end=(0.0, 0.03, -0.2827), radius=0.035),
            Shape(
                kind="capsule", start=(0.0, 0.0103, -0.285), end=(0.0, 0.0503, -0.285), radius=0.05
            ),
        )
    ),
    ranges=same(_PLACEHOLDER),
    feature_ranges=mirrored_range((-0.85, 1.65), "x"),
    torque_limit=80.0,
    velocity_limit=7.5,
    saturation_torque=120.0,
)  # fmt: skip

_CALF = Segment(
    position=(0.0, 0.1003, -0.285),
    inertials=mirrored(
        Inertial(
            mass=0.58842,
            com=(0.0612527695, 0.00546199925, -0.0806597811),
            inertia=(
                0.00881037982, 0.0101611414, 0.00154978408,
                5.35713292e-05, 0.00181935369, -2.26604268e-05,
            ),
        )
    ),
    shapes=mirrored_shapes(
        (
            Shape(kind="capsule", start=(0.0, 0.02, 0.0), end=(0.08795, 0.02, 0.0), radius=0.033),
            Shape(
                kind="capsule",
                start=(0.08795, 0.01305, 0.0),
                end=(0.08795, 0.01305, -0.292),
                radius=0.0175,
            ),
        )
    ),
    ranges=same(_PLACEHOLDER),
    feature_ranges=mirrored_range((-2.05, 0.45), "x"),
    torque_limit=80.0,
    velocity_limit=7.5,
    saturation_torque=120.0,
)  # fmt: skip

ANYMAL_C = Robot(
    name="anymal-c",
    title="ANYbotics ANYmal C",
    base=_BASE,
    links=build_links(
        (_HIP, _THIGH, _CALF),
        JointDynamics(armature=0.01, damping=0.0, frictionloss=0.1),
        _NAMING,
    ),
    feet=build_feet((0.08795, 0.01305, -0.31547), radius=0.03),
    gains=Gains(kp=80.0, kd=2.0),
    pose=Pose(
        angles=(0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8),
        base_height=0.54882,
        spawn_height=0.6,
    ),
    soft_limit_factor=0.95,
    native_orders={
        "urdf": _NAMING.joint_order(("LF", "RF", "LH", "RH")),
        "menagerie": _NAMING.joint_order(("LF", "RF", "LH", "RH")),
        "isaaclab": _NAMING.joint_order(("LF", "LH", "RF", "RH"), by_leg=False),
    },
    sources={
        "base": f"derived from {src.URDF_ANYMAL_C}: the 24 links fixed to the base; "
        f"{src.MENAGERIE_ANYMAL_C} carries the base of its ANYmal B, 19.2035 kg, instead",
        "hip": f"derived from {src.URDF_ANYMAL_C}: HIP 0.001, hip_fixed 0.74 and HFE drive "
        "2.04 kg; same in Menagerie",
        "thigh": f"derived from {src.URDF_ANYMAL_C}: THIGH 0.001, thigh_fixed 1.03 and KFE drive "
        "2.04 kg; same in Menagerie",
        "calf": f"derived from {src.URDF_ANYMAL_C}: SHANK 0.001, shank_fixed 0.33742 and FOOT "
        "0.25 kg; same in Menagerie",
        "foot": f"{src.URDF_ANYMAL_C}, {src.MENAGERIE_ANYMAL_C}",
        "shapes": f"chosen here, simpler than those of {src.URDF_ANYMAL_C}",
        "imu": src.URDF_ANYMAL_C,
        "drive": f"{src.URDF_ANYMAL_C}; saturation {src.ISAACLAB_ANYMAL}",
        "feature_ranges": f"hip {src.URDF_ANYMAL_C}; thigh and calf chosen here, 1.25 rad about "
        "the stance, as the maker's range is a placeholder",
        "joint_dynamics": f"armature {src.ISAACLAB_ARMATURE}; dry friction "
        f"{src.MENAGERIE_ANYMAL_C}; no damping, as the drive has its own",
        "gains": f"{src.LEGGED_GYM}, ANYmal setting without its actuator network",
        "pose": src.ISAACLAB_ANYMAL,
        "heights": f"base height derived by forward kinematics; spawn {src.ISAACLAB_ANYMAL}",
        "soft_limit_factor": src.ISAACLAB_ANYMAL,
        "native_orders": f"{src.URDF_ANYMAL_C}, {src.ISAACLAB_ANYMAL_ORDER}",
    },
)
