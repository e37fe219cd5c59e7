"""A policy at work while somebody looks: one body, simulated at the pace of a clock."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.session import Session
from gmc_bench.policies.policy import Policy
from gmc_bench.policies.torch_state import torch_threads
from gmc_bench.rendering.scene import SQUARE
from gmc_bench.rendering.web.episodes import model_of_first_row
from gmc_bench.rendering.web.motion import place_bodies
from gmc_bench.rendering.web.shapes import describe_model

MAX_PUSH = 3.0
"""m/s, of one push along each axis."""
FRICTIONS = (0.05, 5.0)
"""Least and greatest factor on friction."""
SPEEDS = (0.05, 8.0)
"""Least and greatest pace, simulated seconds per second."""
_SPEED_WINDOW = 0.5  # s
_ROW = np.array([0])


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A policy, and what it was trained for."""

    session: Session
    policy: Policy
    untrained: bool = False

    @property
    def name(self) -> str:
        """For people."""
        method = self.session.method.title or self.session.method.id
        untrained = " untrained" if self.untrained else ""
        return f"{method}{untrained}, {self.session.task.title}, seed {self.session.config.seed}"

    @property
    def bodies(self) -> Sequence[Any]:
        """Those it can control: test bodies, or with separate weights per body the train bodies."""
        split = "train" if self.session.method.capabilities.per_body else "test"
        return self.session.bodies.split(split) or self.session.bodies.split("train")


class LiveSimulation:
    """Simulates one body, whose policy and surroundings can be changed at any time.

    Not for several threads at a time.

    Args:
        contestants: at least one.
        body: name of the body to begin with; default the first one.
        seed: of start states and random ground.

    Raises:
        ConfigError: there is no such body.
    """

    def __init__(
        self, contestants: Sequence[Contestant], *, body: str | None = None, seed: int = 1
    ) -> None:
        self.contestants = list(contestants)
        self.playing, self.speed, self.friction = True, 1.0, 1.0
        """Whether time passes, simulated seconds per second, factor on all friction."""
        self._seed = seed
        self.number = 0
        """Of the scene: another one means another body or ground."""
        self.scene: dict[str, Any] = {}
        """The present scene as the player takes it."""
        names = [item.name for item in self.contestants[0].bodies]
        if body is not None and body not in names:
            raise ConfigError(
                f"the first policy has no body {body!r} to control{did_you_mean(body, names)}"
            )
        self._enter(0, 0 if body is None else names.index(body))

    @classmethod
    def of_runs(cls, runs: Sequence[Path], *, body: str | None = None) -> "LiveSimulation":
        """Return the simulation of the policies of finished runs, or of records with weights.

        Raises:
            GmcBenchError: a policy cannot be loaded.
        """
        found = []
        for run in runs:
            one = Experiment.open(run)
            untrained = bool(one.config.untrained)
            found.append(Contestant(session=one.session, policy=one.policy, untrained=untrained))
        return cls(found, body=body)

    @property
    def control_dt(self) -> float:
        """Time between two control steps, s."""
        return self._core.simulator.control_dt

    def change(self, controls: Mapping[str, Any]) -> None:
        """Apply changes of the controls; values out of range are refused.

        Args:
            controls: of `playing`, `speed`, `friction`, `push` (x and y, m/s, world), `body` and
                `policy` (numbers in their lists), `restart`.

        Raises:
            ConfigError: a control or its value makes no sense; nothing was changed.
        """
        match dict(controls):
            case {"playing": bool(playing)}:
                self.playing = playing
            case {"speed": speed} if _is_within(speed, *SPEEDS):
                self.speed = float(speed)
            case {"friction": factor} if _is_within(factor, *FRICTIONS):
                self.friction = float(factor)
                self._apply_friction()
            case {"push": [x, y]} if (
                # Each alone first: of whole numbers beyond any float there is no hypotenuse.
                all(_is_within(value, -MAX_PUSH, MAX_PUSH) for value in (x, y))
                and math.hypot(x, y) <= MAX_PUSH
            ):
                self._core.simulator.push(_ROW, np.array([[x, y]], np.float64))
            case {"body": int(body)} if _is_within(body, 0, len(self._contestant.bodies) - 1):
                self._begin(body)
            case {"policy": int(policy)} if _is_within(policy, 0, len(self.contestants) - 1):
                names = [item.name for item in self.contestants[policy].bodies]
                here = self._contestant.bodies[self._body].name
                self._enter(policy, names.index(here) if here in names else 0)
            case {"restart": True}:
                self._begin(self._body)
            case _:
                raise ConfigError(
                    f"this cannot be done: {sorted(controls)}; see the page's controls"
                )

    def step(self) -> None:
        """Advance by one control step; where an episode ends, the next one begins."""
        core = self._core
        # One body is too little to share.
        with torch_threads(1), self._contestant.policy.acting():
            actions = self._bound.act(core)
        result = core.step(actions)
        self._total += float(result.reward[0])
        self._steps += 1
        self._path.append(float(core.simulator.torso_position[0, 0]))
        if result.terminated[0] or result.truncated[0]:
            self._begin(self._body)

    def frame(self) -> dict[str, Any]:
        """Return where everything is now, for JSON."""
        qpos = self._core.simulator.data(0).qpos
        if np.isfinite(qpos).all():
            self._data.qpos[:] = qpos
        contacts = place_bodies(self._model, self._data)
        back = min(len(self._path) - 1, round(_SPEED_WINDOW / self.control_dt))
        moved = self._path[-1] - self._path[-1 - back]
        return {
            "number": self.number,
            "places": np.round(self._data.xpos[1:], 4).tolist(),
            "turns": np.round(self._data.xquat[1:], 5).tolist(),
            "contacts": np.round(contacts, 3).tolist(),
            "speed": moved / (back * self.control_dt) if back else 0.0,
            "total": self._total,
            "time": self._steps * self.control_dt,
            "step": self._steps,
            "settings": {
                "playing": self.playing,
                "speed": self.speed,
                "friction": self.friction,
            },
        }

    def _enter(self, policy: int, body: int) -> None:
        """Let another policy act."""
        self._policy, self._contestant = policy, self.contestants[policy]
        session, found = self._contestant.session, self._contestant.policy
        self._core = EnvironmentCore(
            session.task, self._contestant.bodies, 1, token_spec=found.spec, num_threads=1
        )
        self._core.simulator.seed(self._seed)
        self._bound = found.on(self._core.table, 1)
        self._frictions: dict[Any, Any] = {}
        self._shown: tuple[int, int, int] | None = None
        self._begin(body)

    def _begin(self, body: int) -> None:
        """Begin an episode."""
        self._body = body
        self._core.reset(_ROW, np.array([body]))
        self._bound.start(_ROW, np.array([body]))
        self._total, self._steps = 0.0, 0
        self._path = [float(self._core.simulator.torso_position[0, 0])]
        self._resting = self._core.simulator.drive_state.friction[0].copy()
        self._apply_friction()
        simulator = self._core.simulator
        shown = (self._policy, body, int(simulator.model_index[0]))
        if shown != self._shown or simulator.ground is not None:
            self._shown = shown
            self._describe()

    def _apply_friction(self) -> None:
        """Multiply the friction of body and ground."""
        simulator = self._core.simulator
        if simulator.has_drives:
            simulator.set_friction(_ROW, self.friction * self._resting[None])
            return
        model = simulator.model(0)
        usual = self._frictions.setdefault(model, model.geom_friction.copy())
        model.geom_friction[:, 0] = self.friction * usual[:, 0]

    def _describe(self) -> None:
        task = self._contestant.session.task
        self._model = model_of_first_row(self._core)
        self._data = mujoco.MjData(self._model)
        bodies = [body.name for body in self._contestant.bodies]
        self.number += 1
        square = task.grid.cell_size if task.grid else SQUARE
        described = describe_model(self._model, square)
        self.scene = described | {
            "number": self.number,
            "title": bodies[self._body],
            "facts": self._contestant.name,
            "policies": [item.name for item in self.contestants],
            "policy": self._policy,
            "body_names": bodies,
            "body": self._body,
        }


def _is_within(value: object, low: float, high: float) -> bool:
    """Return whether a value of JSON is a number in a range; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high
