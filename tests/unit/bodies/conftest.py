import os
from pathlib import Path

import pytest

from gmc_bench.bodies.importer import read_public_layout
from gmc_bench.bodies.sandbox import Sandbox
from gmc_bench.bodies.schema import MorphologySet

REPOSITORY = Path(__file__).parents[3]

TINY_BODY = """
<mujoco model="tiny">
  <compiler angle="degree"/>
  <default>
    <motor ctrlrange="-1 1" ctrllimited="true"/>
    <geom type="capsule" condim="3"/>
    <default class="normal">
      <joint type="hinge" damping="2" stiffness="3" armature="0.5" limited="true" range="-90 90"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="torso/0" pos="0 0 0.5">
      <joint name="root" type="free"/>
      <geom name="torso/0" type="sphere" size="0.1" density="500"/>
      <site name="imu" pos="0 0 0"/>
      <body name="limb/0" pos="0 0.1 0">
        <joint name="limbx/0" class="normal" range="-30 60" pos="0 -0.05 0" axis="1 0 0"/>
        <joint name="limby/0" class="normal" axis="0 0 1"/>
        <geom name="limb/0" fromto="0 0 0 0 0.25 0" size="0.05" density="900"/>
      </body>
      <body name="limb/1" pos="0 -0.1 0">
        <joint name="limby/1" class="normal" axis="0 0 -1"/>
        <geom name="limb/1" fromto="0 0 0 0 -0.25 0" size="0.05" density="900"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="limbx/0" joint="limbx/0" gear="150"/>
    <motor name="limby/0" joint="limby/0" gear="200"/>
    <motor name="limby/1" joint="limby/1" gear="250"/>
  </actuator>
  <contact><exclude body1="limb/0" body2="limb/1"/></contact>
</mujoco>
"""


@pytest.fixture
def tiny_body() -> str:
    """A torso with two mirrored limbs and three motors; angles in degrees."""
    return TINY_BODY


@pytest.fixture(scope="session")
def published_dir() -> Path:
    """Folder of the published unimals_100 files."""
    default = REPOSITORY.parent / "shared" / "data" / "unimals_100"
    folder = Path(os.environ.get("GMC_UNIMALS_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"the published bodies are not in {folder}; set GMC_UNIMALS_DIR")
    return folder


@pytest.fixture(scope="session")
def published(published_dir) -> MorphologySet:
    """The published bodies."""
    return read_public_layout("unimals_100", published_dir)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as started:
        yield started
