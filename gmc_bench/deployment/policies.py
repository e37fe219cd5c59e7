"""Trained policies as functions of tokens: a run's network, or an ONNX file."""

import json
import os
from typing import Any, Protocol

import numpy as np
import torch

from gmc_bench.core.arguments import as_path, require_finite
from gmc_bench.core.config import shown
from gmc_bench.core.errors import CheckpointError, ConfigError
from gmc_bench.core.types import FloatArray
from gmc_bench.deployment.export import SEALED_VERSION, is_sealed, load_package
from gmc_bench.deployment.interface import Manifest
from gmc_bench.policies.bound import Observed
from gmc_bench.policies.policy import Policy
from gmc_bench.policies.torch_state import torch_threads
from gmc_bench.tokens.actuators import NUM_ACTUATORS
from gmc_bench.tokens.table import MorphologyTable

_WIDEST = 1 << 16  # width of a recurrent state: a file with more only fills memory


class RobotPolicy(Protocol):
    """A policy for one robot at a time."""

    @property
    def manifest(self) -> Manifest:
        """Description of the policy and its robots."""

    def reset(self) -> None:
        """Reset the recurrent state, if there is one."""

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions.

        Args:
            tokens: (1, L, F) numbers, raw; they are read as float32.
            robot: id of the robot that shows them.

        Returns:
            (L,) float32, zero in padding.

        Raises:
            ConfigError: they have another shape, or are no finite numbers; then the recurrent state
                stays as it was.
            UnknownNameError: the policy was not trained on the robot.
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
        """Reset the recurrent state, if there is one."""
        self._bound.start(np.array([0]), self._bound.sequences)

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions, see `RobotPolicy`."""
        tokens = _as_tokens(tokens, self.manifest)
        index = np.array([self.manifest.robot(robot).index])
        self._bound.sequences = index
        with torch_threads(1), torch.no_grad():  # one robot is too little to share
            actions = self._bound.act(Observed(tokens[..., self._places], index))
        found: FloatArray = actions[0, :, 0]
        return found


class OnnxPolicy:
    """An exported policy, on one thread.

    Args:
        path: the file, text or a path.
        data: its content, if that is at hand.

    Raises:
        ConfigError: onnxruntime is not installed, the path is none, or the file does not say what
            its policy is.
        CheckpointError: the file cannot be read, or does not take what policies are given.
    """

    def __init__(self, path: str | os.PathLike[str], data: bytes | None = None) -> None:
        path = as_path(path, "the file of an exported policy")
        runtime: Any = load_package("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what fails is said once, by the error
        try:
            data = path.read_bytes() if data is None else data
            sealed = is_sealed(data, path)
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except CheckpointError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:120]
            raise CheckpointError(
                f"{path} cannot be read as ONNX ({reason}); give a file of 'gmc-bench export'"
            ) from error
        self._path, self._session = path, session
        described = session.get_modelmeta()
        if described.version >= SEALED_VERSION and not sealed:
            raise CheckpointError(f"{path} is damaged: it lacks its digest; export the run again")
        try:
            entries = described.custom_metadata_map
            content = {name: json.loads(value) for name, value in entries.items()}
        except (ValueError, RecursionError) as error:  # also text, or a number, that is not read
            raise ConfigError(
                f"{path} has a description that is not JSON; give a file of 'gmc-bench export'"
            ) from error
        self.manifest = Manifest.from_dict(content)
        self._mask = np.ones((1, self.manifest.layout.num_tokens), np.bool_)
        self._mask[:, :NUM_ACTUATORS] = False
        self._shapes = {item.name: item.shape for item in session.get_inputs()}
        self._outputs = ["actions"] + (["next_state"] if "state" in self._shapes else [])
        self._require_interface()
        self._state: FloatArray | None = None
        self.reset()

    def _require_interface(self) -> None:
        """Raise unless a file takes what policies are given, and gives what they give."""
        length, features = self.manifest.layout.num_tokens, self.manifest.layout.num_features
        expected = dict.fromkeys(self._outputs, "tensor(float)")
        expected["tokens"] = f"tensor(float) [1, {length}, {features}]"
        expected["mask"] = f"tensor(bool) [1, {length}]"
        if "robot" in self._shapes:
            expected["robot"] = "tensor(int64) [1]"
        if "state" in self._shapes:
            width = next(iter(self._shapes["state"][-1:]), None)
            fixed = isinstance(width, int) and 0 < width <= _WIDEST
            expected["state"] = f"tensor(float) [1, {length}, {width if fixed else 'S'}]"
        found = {item.name: f"{item.type} {item.shape}" for item in self._session.get_inputs()}
        found |= {item.name: item.type for item in self._session.get_outputs()}
        for name in [*expected, *found]:
            if found.get(name) != expected.get(name):
                raise CheckpointError(
                    f"{self._path} has {found.get(name, 'nothing')} as {name!r}, expected "
                    f"{expected.get(name, 'nothing')}; export the run again"
                )

    def reset(self) -> None:
        """Reset the recurrent state, if there is one."""
        if "state" in self._shapes:
            self._state = np.zeros(self._shapes["state"], np.float32)

    def __call__(self, tokens: FloatArray, robot: str) -> FloatArray:
        """Return deterministic actions, see `RobotPolicy`."""
        tokens, interface = _as_tokens(tokens, self.manifest), self.manifest.robot(robot)
        given: dict[str, Any] = {"tokens": tokens, "mask": self._mask}
        if "robot" in self._shapes:
            given["robot"] = np.array([interface.index])
        if self._state is not None:
            given["state"] = self._state
        try:
            actions, *rest = self._session.run(self._outputs, given)
        except Exception as error:
            raise self._cannot_act(" ".join(str(error).split())[:300]) from error
        if actions.shape != self._mask.shape:
            raise self._cannot_act(f"its actions are {actions.shape}, not {self._mask.shape}")
        if rest:
            self._state = rest[0]
        found: FloatArray = actions[0]
        return found

    def _cannot_act(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self._path} cannot act ({reason}); export the run again")


def _as_tokens(given: Any, manifest: Manifest) -> FloatArray:
    """Return the tokens of one robot as float32.

    Raises:
        ConfigError: they have another shape, or are no finite numbers.
    """
    expected = (1, manifest.layout.num_tokens, manifest.layout.num_features)
    try:
        tokens = np.asarray(given, np.float32)
        got = f"the shape {tokens.shape}"
    except (TypeError, ValueError):
        tokens, got = np.zeros(0, np.float32), shown(given)
    if tokens.shape != expected:
        raise ConfigError(
            f"the policy reads tokens of the shape {expected}, got {got}; give what "
            f"Adapter.tokens returned"
        )
    require_finite(
        tokens,
        lambda _, token, place: f"the feature {manifest.layout.name_at(place)!r} of token {token}",
        "stop the robot, or mend the sensor that it comes from",
    )
    return tokens


def largest_difference(
    one: RobotPolicy, other: RobotPolicy, count: int, seed: int = 0, spread: float = 1.0
) -> float:
    """Return how far two policies' actions are apart at most, over random observations.

    Apart means |a - b| / max(1, |a|): absolute for actions of usual size.

    Args:
        one: a policy.
        other: the same policy in another form.
        count: observations; the robots take turns, and recurrent states are carried over.
        seed: of the observations.
        spread: standard deviation of the raw time-varying features.

    Returns:
        The difference; NaN where an action is.
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
        largest = np.maximum(largest, apart.max())  # which keeps NaN, as `max` does not
    return float(largest)
