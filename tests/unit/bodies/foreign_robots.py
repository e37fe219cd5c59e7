"""Robots as users bring them, in texts."""

import math

_INERTIA = '<inertia ixx="{0}" iyy="{0}" izz="{0}" ixy="0" ixz="0" iyz="0"/>'


def _link(name, mass, inertia, shape="", origin="0 0 0"):
    collision = (
        f'<collision><origin xyz="{origin}"/><geometry>{shape}</geometry></collision>'
        if shape
        else ""
    )
    return (
        f'<link name="{name}"><inertial><origin xyz="{origin}"/><mass value="{mass}"/>'
        f"{_INERTIA.format(inertia)}</inertial><visual><geometry><mesh "
        f'filename="package://quad/meshes/{name}.dae"/></geometry></visual>{collision}</link>'
    )


def _joint(name, kind, parent, child, origin, axis="0 1 0", limit=""):
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="{origin}"/><parent link="{parent}"/>'
        f'<child link="{child}"/><axis xyz="{axis}"/>{limit}</joint>'
    )


def quadruped_urdf() -> str:
    """Four legs with a shapeless hip, a continuous swing, a knee, and a foot fixed to the calf."""
    parts = ['<?xml version="1.0"?><!-- <mujoco> --><robot name="quad">']
    parts.append(_link("base", 6, 0.06, '<box size="0.4 0.2 0.1"/>'))
    for leg, x, y in (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("rl", -0.2, 0.1), ("rr", -0.2, -0.1)):
        parts += [
            _link(f"{leg}_hip", 0.6, 0.0005),
            _link(f"{leg}_thigh", 1, 0.004, '<box size="0.04 0.03 0.2"/>', "0 0 -0.1"),
            _link(
                f"{leg}_calf", 0.2, 0.001, '<cylinder radius="0.015" length="0.18"/>', "0 0 -0.1"
            ),
            _link(f"{leg}_foot", 0.06, 0.00001, '<sphere radius="0.02"/>'),
            _joint(
                f"{leg}_abduct", "revolute", "base", f"{leg}_hip", f"{x} {y} 0", "1 0 0",
                '<limit lower="-0.8" upper="0.8" effort="20" velocity="20"/>'
                '<dynamics damping="0.05" friction="0.1"/>',
            ),
            _joint(
                f"{leg}_swing", "continuous", f"{leg}_hip", f"{leg}_thigh",
                f"0 {math.copysign(0.05, y)} 0",
            ),
            _joint(
                f"{leg}_knee", "revolute", f"{leg}_thigh", f"{leg}_calf", "0 0 -0.2",
                limit='<limit lower="-2.6" upper="-0.8" effort="30" velocity="20"/>',
            ),
            _joint(f"{leg}_ankle", "fixed", f"{leg}_calf", f"{leg}_foot", "0 0 -0.2"),
        ]  # fmt: skip
    return "".join([*parts, "</robot>"])


def looped_urdf(kind: str = "revolute", closing: str = "0 -0.4 0.2") -> str:
    """A bar that hangs between two rockers; the last joint gives `right` a second parent."""
    limit = '<limit lower="-0.6" upper="0.6" effort="10" velocity="9"/>'
    box = '<box size="0.05 0.05 0.1"/>'
    return "".join([
        '<robot name="loop">', _link("base", 3, 0.02, box), _link("left", 0.5, 0.01, box),
        _link("bar", 0.5, 0.01, box), _link("right", 0.5, 0.01, box),
        _joint("jl", "revolute", "base", "left", "0 0.2 -0.2", "1 0 0", limit),
        _joint("jr", "revolute", "base", "right", "0 -0.2 -0.2", "1 0 0", limit),
        _joint("jb", "revolute", "left", "bar", "0 0 -0.2", "1 0 0", limit),
        _joint("close", kind, "bar", "right", closing, "1 0 0", limit), "</robot>",
    ])  # fmt: skip


PART = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
"""A mesh, a tetrahedron of 0.1 m."""

SERVO = """
<mujoco model="servo">
  <compiler angle="degree" meshdir="meshes"/>
  <asset><mesh name="part" file="part.obj"/></asset>
  <default><position kp="10" kv=".3" ctrlrange="-.8 .8"/></default>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body name="torso" pos="0 0 .4" euler="0 0 30">
      <freejoint/>
      <geom type="ellipsoid" size=".2 .1 .06" mass="4"/>
      <geom type="mesh" mesh="part" contype="0" conaffinity="0" mass="0"/>
      <body name="a" pos=".15 0 0">
        <joint name="a1" axis="0 1 0" range="-60 60" ref="10" springref="5" stiffness="3"
               damping=".3" armature=".02" frictionloss=".1"/>
        <joint name="a2" type="slide" axis="0 0 1" range="-.05 .05" armature=".1" damping="5"/>
        <geom type="cylinder" fromto="0 0 0 0 0 -.2" size=".03" mass=".5"/>
        <body name="b" pos="0 0 -.22">
          <joint name="b1" axis="0 1 0" damping=".2" armature=".05"/>
          <geom type="mesh" mesh="part" mass=".2"/>
        </body>
      </body>
      <body name="c" pos="-.15 0 0">
        <joint name="c1" axis="0 1 0" range="-60 60" damping=".3"/>
        <geom type="box" size=".03 .03 .12" pos="0 0 -.12" euler="10 0 0" mass=".5"/>
      </body>
    </body>
  </worldbody>
  <contact><exclude body1="a" body2="c"/></contact>
  <actuator>
    <position joint="a1"/>
    <motor joint="a2" gear="50" ctrlrange="0 2" forcerange="-1 1"/>
    <velocity joint="c1" kv="3" ctrlrange="-2 2"/>
    <position joint="b1" ctrllimited="false" ctrlrange="0 0"/>
  </actuator>
  <keyframe><key name="home" qpos="0 0 .5 1 0 0 0 .3 .01 .4 -.2"/></keyframe>
</mujoco>
"""
"""Servos, a slide, meshes, a reference, a keyframe and an exclusion."""

FOUR_BAR = """
<mujoco>
  <worldbody>
    <body name="t" pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".1 .2 .05" mass="3"/>
      <body name="l" pos="0 .15 -.05">
        <joint name="l" axis="1 0 0" range="-40 40" damping="1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".3"/>
        <body name="bar" pos="0 0 -.2">
          <joint name="bar" axis="1 0 0" range="-60 60" damping="1"/>
          <geom type="capsule" fromto="0 0 0 0 -.3 0" size=".02" mass=".3"/>
        </body>
      </body>
      <body name="r" pos="0 -.15 -.05">
        <joint name="r" axis="1 0 0" range="-40 40" damping="1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".3"/>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect body1="bar" body2="r" anchor="0 -.3 0"/><joint joint1="l" joint2="r"/>
  </equality>
  <actuator><motor joint="l" gear="10" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>
"""
"""Two rockers and a bar, closed by a constraint."""

WALKER = """
<mujoco>
  <worldbody>
    <body name="t" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <joint name="pitch" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .4" size=".05"/>
      <body name="yaw" pos="0 0 0">
        <inertial pos="0 0 0" mass=".001" diaginertia="1e-6 1e-6 1e-6"/>
        <joint name="yaw" axis="0 0 1" range="-30 30"/>
        <body name="roll" quat="0.7071067811865476 0 0 0.7071067811865476">
          <inertial pos="0 0 0" mass=".001" diaginertia="1e-6 1e-6 1e-6"/>
          <joint name="roll" axis="0 1 0" pos="0 0 .01" range="-30 30"/>
          <body name="leg" pos="0 0 -.01">
            <joint name="pitch2" axis="1 0 0" range="-60 30"/>
            <geom type="capsule" fromto="0 0 -.1 0 0 -.5" size=".04"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="yaw" gear="10"/><motor joint="roll" gear="10"/><motor joint="pitch2" gear="10"/>
    <motor joint="pitch" gear="3"/>
  </actuator>
</mujoco>
"""
"""A planar root, and a hip of three bodies of which two only chain joints."""
