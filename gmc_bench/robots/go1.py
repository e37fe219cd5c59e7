"""Unitree Go1. Units and frames: see `gmc_bench.robots.parts`."""

from gmc_bench.robots import sources as src
from gmc_bench.robots.assembly import (
    JointDynamics,
    Naming,
    Segment,
    build_feet,
    build_links,
    mirrored,
    mirrored_shapes,
    same,
)
from gmc_bench.robots.parts import Base, Gains, Inertial, Pose, Shape
from gmc_bench.robots.schema import Robot

_NAMING = Naming()

_BASE = Base(
    name="trunk",
    inertial=Inertial(
        mass=5.204,
        com=(0.0223, 0.002, -0.0005),
        inertia=(
            0.0168128557, 0.063009565, 0.0716547275, -0.0002296769, -0.0002945293, -4.18731e-05
        ),
    ),
    shapes=(
        Shape(kind="box", start=(0.0, 0.0, 0.0), half_extents=(0.1881, 0.04675, 0.057)),
        Shape(kind="sphere", start=(0.24, 0.0, 0.0), radius=0.06),
    ),
    imu=(-0.01592, -0.06659, -0.00617),
)  # fmt: skip

_HIP = Segment(
    position=(0.1881, 0.04675, 0.0),
    inertials=mirrored(
        Inertial(
            mass=0.68,
            com=(-0.00491659853, -0.00762615, -8.865e-05),
            inertia=(
                0.000399379786, 0.000733419392, 0.000468422091,
                -1.45901057e-05, 1.24609912e-06, 1.57532551e-06,
            ),
        )
    ),
    shapes=mirrored_shapes((Shape(kind="sphere", start=(0.0, 0.055, 0.0), radius=0.046),)),
    ranges=same((-0.863, 0.863)),
    torque_limit=23.7,
    velocity_limit=30.1,
)  # fmt: skip

_THIGH = Segment(
    position=(0.0, 0.08, 0.0),
    # Rear thighs are built like front ones, not like their mirror images.
    inertials=mirrored(
        Inertial(
            mass=1.009,
            com=(-0.00304721506, -0.019314995, -0.0305004163),
            inertia=(
                0.00459879646, 0.00468922406, 0.000817447857,
                6.13739128e-05, -0.000227529117, 0.000610808287,
            ),
        ),
        "y",
    ),
    shapes=same(
        (Shape(kind="capsule", start=(-0.01, 0.0, 0.0), end=(-0.01, 0.0, -0.19), radius=0.02),)
    ),
    ranges=same((-0.686, 4.501)),
    torque_limit=23.7,
    velocity_limit=30.1,
)  # fmt: skip

_CALF = Segment(
    position=(0.0, 0.0, -0.213),
    # The maker's file holds one calf for all four legs.
    inertials=same(
        Inertial(
            mass=0.195862,
            com=(0.00429862257, 0.000976675904, -0.146196894),
            inertia=(
                0.00148448395, 0.00149763545, 3.60682694e-05,
                -6.18826635e-07, -1.77209168e-05, -3.56626238e-06,
            ),
        )
    ),
    shapes=same(
        (Shape(kind="capsule", start=(0.01, 0.0, -0.01), end=(0.01, 0.0, -0.18), radius=0.014),)
    ),
    ranges=same((-2.818, -0.888)),
    torque_limit=35.55,
    velocity_limit=20.06,
)  # fmt: skip

GO1 = Robot(
    name="go1",
    title="Unitree Go1",
    base=_BASE,
    links=build_links(
        (_HIP, _THIGH, _CALF),
        JointDynamics(armature=0.01, damping=0.0, frictionloss=0.2),
        _NAMING,
    ),
    feet=build_feet((0.0, 0.0, -0.213), radius=0.023),
    gains=Gains(kp=25.0, kd=0.5),
    pose=Pose(
        angles=(0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5),
        base_height=0.32477,
        spawn_height=0.4,
    ),
    soft_limit_factor=0.9,
    native_orders={
        "unitree-sdk": _NAMING.joint_order(("FR", "FL", "RR", "RL")),
        "menagerie": _NAMING.joint_order(("FR", "FL", "RR", "RL")),
        "urdf": _NAMING.joint_order(("FL", "FR", "RL", "RR")),
        "isaaclab": _NAMING.joint_order(("FL", "FR", "RL", "RR"), by_leg=False),
    },
    sources={
        "base": f"{src.URDF_GO1}, link trunk; same in {src.MENAGERIE_GO1}",
        "hip": f"derived from {src.URDF_GO1}: hip and thigh rotor (0.089 kg); same in Menagerie",
        "thigh": f"derived from {src.URDF_GO1}: thigh and calf rotor (0.089 kg); same in Menagerie",
        "calf": f"derived from {src.URDF_GO1}: calf and foot (0.06 kg); same in Menagerie",
        "foot": f"{src.MENAGERIE_GO1}; the URDF has radius 0.02",
        "shapes": f"trunk box {src.URDF_GO1}, head {src.MJLAB_GO1}; legs chosen here, simpler than "
        "Menagerie's",
        "imu": f"{src.URDF_GO1}, {src.MJLAB_GO1}; Menagerie has the origin",
        "drive": f"{src.URDF_GO1}; confirmed by {src.ISAACLAB_KNEES}; saturation chosen here, the "
        "torque limit",
        "feature_ranges": f"the joint ranges, {src.URDF_GO1}",
        "joint_dynamics": "chosen here: armature between the reflected rotor inertia (0.0040 and "
        f"0.0091, {src.MJLAB_GO1}) and 0.02 ({src.ISAACLAB_ARMATURE}); dry friction "
        f"{src.MENAGERIE_GO1}; no damping, as the drive has its own",
        "gains": f"chosen here, as Go2; between 20/0.5 ({src.WALK_THESE_WAYS}) and 35/0.5 "
        f"({src.PLAYGROUND_GO1})",
        "pose": f"{src.ISAACLAB_UNITREE}; same in {src.WALK_THESE_WAYS}",
        "heights": f"base height derived by forward kinematics; spawn {src.ISAACLAB_UNITREE}",
        "soft_limit_factor": src.ISAACLAB_UNITREE,
        "native_orders": f"{src.MENAGERIE_GO1}, {src.URDF_GO1}, {src.ISAACLAB_UNITREE}",
    },
)
