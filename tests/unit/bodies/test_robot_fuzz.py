"""Broken and hostile robot files: each is read or refused in one sentence, whatever it holds."""

import os
import random
import re
from pathlib import Path

import gymnasium
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.bodies.robot_import import read_robot
from gmc_bench.bodies.robot_report import render_robot
from gmc_bench.bodies.sandbox import Sandbox
from gmc_bench.core.errors import MorphologyError
from tests.unit.bodies import foreign_robots as robots

COUNT = int(os.environ.get("GMC_BENCH_FUZZ", "100"))
"""Files to try; GMC_BENCH_FUZZ=10000 for a thorough run."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + COUNT)]

GYMNASIUM = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
SECRET = "9173648205"  # in the canary; nothing that comes out may hold it
ODD = ["nan", "inf", "-1", "0", "1e308", "-1e308", "1e-320", "99999999999", "", "x", "1 2 3", "-0"]
HOSTILE = [
    '<include file="{canary}"/>', '<include file="../canary.xml"/>',
    '<include file="robot.xml"/>', '<include file="link.xml"/>',
    '<asset><mesh name="z" file="{canary}"/></asset>',
    '<asset><mesh name="z" file="../../canary.xml"/></asset>',
    '<asset><model name="z" file="../canary.xml"/></asset>',
    '<asset><texture name="z" type="2d" file="/etc/passwd"/></asset>',
    '<asset><hfield name="z" file="../canary.xml" size="1 1 1 1"/></asset>',
    '<compiler meshdir="/" texturedir=".." assetdir="../.."/>',
    '<size memory="100G" njmax="2000000000" nuserdata="2000000000"/>',
    '<worldbody><replicate count="100000"><body><freejoint/><geom size="1"/></body></replicate>'
    '</worldbody>',
    '<worldbody><body><composite type="cable" count="5000 1 1" size="1"><geom size=".1"/>'
    '<joint kind="main"/></composite></body></worldbody>',
    '<worldbody><flexcomp name="f" type="grid" count="30 30 30" spacing=".1 .1 .1"/></worldbody>',
    '<extension><plugin plugin="mujoco.elasticity.cable"/></extension>',
    '<option timestep="1e9" integrator="implicit"/>', "<default><geom mass='-1'/></default>",
    "<worldbody>" + "<body>" * 3000 + "</body>" * 3000 + "</worldbody>",
    "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>", "<![CDATA[", "\x00", "\ud7ff", "<!--",
]  # fmt: skip


def _mutate(text: str, rng: random.Random, canary: Path) -> str:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        place = rng.randrange(len(text) + 1)
        end = min(len(text), place + rng.choice([1, 3, 20, 200, 2000]))
        match rng.randrange(9):
            case 0:
                text = text[:place]
            case 1:
                text = text[:place] + text[end:]
            case 2:
                text = text[:place] + text[place:end] * rng.choice([2, 3, 30]) + text[end:]
            case 3:
                text = text[:place] + chr(rng.randrange(1, 0x2FF)) + text[place + 1 :]
            case 4:
                hostile = rng.choice(HOSTILE).format(canary=canary)
                ends = [match.end() for match in re.finditer(r">", text)] or [0]
                place = rng.choice(ends)
                text = text[:place] + hostile + text[place:]
            case 5 | 6:
                text = _swap(text, r"-?\d*\.?\d+", rng, ODD)
            case 7:
                words = re.findall(r"[A-Za-z_]\w+", text) or ["a"]
                text = _swap(text, r"[A-Za-z_]\w+", rng, words)
            case _:
                values = re.findall(r'"[^"]*"', text) or ['""']
                text = _swap(text, r'"[^"]*"', rng, values)
    return text


def _swap(text: str, pattern: str, rng: random.Random, choices: list[str]) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    place = rng.choice(found)
    return text[: place.start()] + rng.choice(choices) + text[place.end() :]


def prepare(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """Make a folder for robots and a canary beside it; return both and texts to break."""
    folder = tmp_path / "robot"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes" / "part.obj").write_text(robots.PART)
    canary = tmp_path / "canary.xml"
    canary.write_text(
        f'<mujoco><worldbody><body name="c{SECRET}"><joint name="j{SECRET}" range="-1 1"/>'
        f'<geom size="1"/></body></worldbody><actuator><motor joint="j{SECRET}"/></actuator>'
        f"</mujoco>"
    )
    (folder / "link.xml").symlink_to(canary)
    sources = [
        *((GYMNASIUM / f"{name}.xml").read_text() for name in ("ant", "humanoid", "half_cheetah")),
        robots.SERVO, robots.FOUR_BAR, robots.WALKER, robots.quadruped_urdf(),
        robots.looped_urdf(),
    ]  # fmt: skip
    return folder, canary, sources


def try_one(seed: int, folder: Path, canary: Path, sources: list[str], sandbox: Sandbox) -> bool:
    """Break a file and read it; return whether a robot came out."""
    rng = random.Random(seed)
    text = _mutate(rng.choice(sources), rng, canary)
    path = folder / rng.choice(["robot.xml", "robot.urdf"])
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        found = read_robot(path, sandbox, seconds=0.1)
    except MorphologyError as error:
        message = str(error)
        assert message, f"seed {seed}"
        assert "\n" not in message, f"seed {seed}"
        assert len(message) < 700, f"seed {seed}"
        assert SECRET not in message.replace(str(canary), ""), f"seed {seed}"
        return False
    # It is a body that can be kept, and read again.
    assert parse_mjcf(emit_mjcf(found.body), "robot") == found.body, f"seed {seed}"
    assert SECRET not in render_robot(found), f"seed {seed}"
    return True


def test_every_broken_file_is_read_or_refused_in_one_sentence(tmp_path):
    folder, canary, sources = prepare(tmp_path)
    with Sandbox(seconds=2) as sandbox:
        read = sum(try_one(seed, folder, canary, sources, sandbox) for seed in range(COUNT))
    # The changes are not so coarse that all stop at the first bracket.
    assert read > COUNT / 20
