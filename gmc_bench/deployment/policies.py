"""Trained policies as functions of tokens: a run's network, or an ONNX file."""

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from gmc_bench.core.errors import CheckpointError, ConfigError
from gmc_bench.core.types import FloatArray
from gmc_bench.deployment.export import SEALED_VERSION, is_sealed, load_package
from gmc_bench.deployment.interface import Manifest
from gmc_bench.policies.bound import Observed
from gmc_bench.policies.policy import Policy
from gmc_bench.policies.torch_state import torch_threads
from gmc_bench.tokens.actuators import NUM_ACTUATORS
from gmc_bench.tokens.table import MorphologyTable


class RobotPolicy(Protocol):
    """A policy for one robot at a time."""

    @property
    def manifest(self) -> Manifest:
        """What the policy is."""

    def reset(self) -> None:
        """Forget what was seen."""

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions.

        Args:
            tokens: (1, L, F) float32, raw.
            robot: id of the robot that shows them.

        Returns:
            (L,) float32, zero in padding.
        """


class TorchPolicy:
    """The networks of a run, as they were trained.

    Args:
        policy: the trained policy.
        table: the robots it was trained on.
        manifest: its description.
    """

    def __init__(self, policy: Policy, table: MorphologyTable, manifest: Manifest) -> None:
        self.manifest = manifest
        policy.model.eval()
        self._bound = policy.on(table, 1)
        self._places = table.spec.dynamic_indices

    def reset(self) -> None:
        """Forget what was seen."""
        self._bound.state.zero_()

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions, see `RobotPolicy`."""
        index = np.array([self.manifest.robot(robot).index])
        self._bound.sequences = index
        with torch_threads(1), torch.no_grad():  # one robot is too little to share
            actions = self._bound.act(Observed(tokens[..., self._places], index))
        found: FloatArray = actions[0, :, 0]
        return found


class OnnxPolicy:
    """An exported policy, on one thread.

    Args:
        path: the file.

    Raises:
        ConfigError: onnxruntime is not installed, or the file says nothing about its policy.
        CheckpointError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        runtime: Any = load_package("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            data = path.read_bytes()
            sealed = is_sealed(data, path)
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except CheckpointError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:120]
            raise CheckpointError(
                f"{path} cannot be read as ONNX ({reason}); give a file of 'gmc-bench export'"
            ) from error
        self._session = session
        described = session.get_modelmeta()
        if described.version >= SEALED_VERSION and not sealed:
            raise CheckpointError(f"{path} is damaged: it lacks its digest; export the run again")
        entries = described.custom_metadata_map
        try:
            content = {name: json.loads(value) for name, value in entries.items()}
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"{path} has a description that is not JSON; give a file of 'gmc-bench export'"
            ) from error
        self.manifest = Manifest.from_dict(content)
        shapes = {item.name: item.shape for item in session.get_inputs()}
        self._mask = np.ones((1, self.manifest.layout.num_tokens), np.bool_)
        self._mask[:, :NUM_ACTUATORS] = False
        self._needs_robot = "robot" in shapes
        self._state_shape = shapes.get("state")
        self._state: FloatArray | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was seen."""
        if self._state_shape is not None:
            self._state = np.zeros(self._state_shape, np.float32)

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions, see `RobotPolicy`."""
        given: dict[str, Any] = {"tokens": tokens, "mask": self._mask}
        if self._needs_robot:
            given["robot"] = np.array([self.manifest.robot(robot).index])
        if self._state is not None:
            given["state"] = self._state
        actions, *rest = self._session.run(None, given)
        if rest:
            self._state = rest[0]
        found: FloatArray = actions[0]
        return found


def largest_difference(
    one: RobotPolicy, other: RobotPolicy, count: int, seed: int = 0, spread: float = 1.0
) -> float:
    """Return how far two policies' actions are apart at most, over random observations.

    Apart means |a - b| / max(1, |a|): absolute for actions of usual size.

    Args:
        one: a policy.
        other: the same policy in another form.
        count: observations; the robots take turns, and memories are kept from one to the next.
        seed: of the observations.
        spread: standard deviation of the raw time-varying features.
    """
    rng = np.random.default_rng(seed)
    layout, robots = one.manifest.layout, list(one.manifest.robots.values())
    places, largest = layout.context_places, 0.0
    one.reset()
    other.reset()
    for number in range(count):
        robot = robots[number % len(robots)]
        tokens = np.zeros((1, layout.num_tokens, layout.num_features), np.float32)
        drawn = spread * rng.standard_normal((NUM_ACTUATORS, layout.num_features))
        tokens[0, :NUM_ACTUATORS] = drawn
        tokens[0, :NUM_ACTUATORS, places] = robot.context.T
        wanted = one(tokens, robot.name)
        apart = np.abs(wanted - other(tokens, robot.name)) / np.maximum(np.abs(wanted), 1.0)
        largest = max(largest, float(apart.max()))
    return largest
