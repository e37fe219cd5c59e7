"""The resolved settings of one run: what `config.yaml` in a run folder holds."""

from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from gmc_bench.core.config import config_digest, load_yaml, to_dict, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import require_recorded_seed
from gmc_bench.core.precision import Precision
from gmc_bench.policies.options import PolicyOptions
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tokens.config import TokenConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides the numbers of a run, and the machine settings it was given.

    Raises:
        ConfigError: the seed or a machine setting is out of range.
    """

    method: str
    """Registered id, or `FILE.py:SPEC`, or `MODULE:SPEC`."""
    method_config: dict[str, Any]
    """Settings of the method."""
    suite: str
    """Full suite id."""
    task: str
    """Full task id."""
    morphologies: str
    """Id of the body set."""
    morphologies_digest: str
    """Content hash of the body set."""
    task_digest: str | None = None
    """`Task.digest` when the run was started; none in runs of earlier versions."""
    protocol: Protocol
    """Rules of the run."""
    seed: int
    """Seed of every random stream."""
    tokens: TokenConfig = field(default_factory=TokenConfig)
    """How bodies are shown to the policy."""
    method_source_digest: str | None = None
    """SHA-256 of the file that the method was given as; none if it was not given as a file."""
    precision: Precision = "float32"
    """Number format of the networks' matrix products; weights are float32 in all."""
    untrained: bool = False
    """Nothing is trained: the policy is scored as training would start from it."""
    unofficial_reasons: tuple[str, ...] = field(default=())
    """Why the run does not follow the suite's rules; empty when it does."""
    device: str = "cpu"
    """Where the networks run."""
    threads: int = 1
    """Threads of simulation and networks, of each process."""
    processes: int = 1
    """Processes that share the environments."""
    checkpoint_interval_s: float = 10.0
    """Seconds between checkpoints."""
    track: str | None = None
    """Tracker that the numbers are also sent to, `NAME` or `NAME:PROJECT`."""
    git_commit: str | None = None
    """Commit of the checkout that the run was started from; none if there was none."""

    def __post_init__(self) -> None:
        require_recorded_seed(self.seed)
        if self.threads < 1 or self.processes < 1 or self.checkpoint_interval_s < 0:
            raise ConfigError(
                f"'threads' and 'processes' must be at least 1 and 'checkpoint_interval_s' not "
                f"negative, got {self.threads}, {self.processes} and {self.checkpoint_interval_s}"
            )

    def identity(self) -> dict[str, Any]:
        """Return the part that decides the numbers, without seed and machine settings."""
        plain = to_dict(self)
        for name in _NOT_IDENTITY:
            del plain[name]
        if self.method_source_digest is None:  # its identity is its id and version, as ever
            del plain["method_source_digest"]
        if not self.untrained:  # as of all runs before there were others
            del plain["untrained"]
        if self.tokens == TokenConfig():  # likewise
            del plain["tokens"]
        elif self.tokens.tree == TokenConfig().tree:
            del plain["tokens"]["tree"]
        return plain

    @property
    def run_digest(self) -> str:
        """Hash of everything that decides the numbers; checkpoints continue a run of the same."""
        return config_digest({**self.identity(), "seed": self.seed})

    @property
    def policy_options(self) -> PolicyOptions:
        """What the run's policy has beside its method."""
        return PolicyOptions(
            order=self.tokens.test_order,
            normalization=self.protocol.normalization,
            action_std=self.protocol.action_std,
            precision=self.precision,
            device=self.device,
        )

    def to_yaml(self) -> str:
        """Return the settings as YAML that `read_run_config` reads back."""
        return yaml.safe_dump(to_dict(self), sort_keys=False)


MACHINE_SETTINGS = ("device", "threads", "processes", "checkpoint_interval_s", "track")
"""Fields that say how a run is run, and do not decide its numbers."""
_NOT_IDENTITY = ("seed", *MACHINE_SETTINGS, "unofficial_reasons", "git_commit", "task_digest")
_TEMPLATE = RunConfig(
    method="",
    method_config={},
    suite="",
    task="",
    morphologies="",
    morphologies_digest="",
    protocol=Protocol(name="", preset="", env_steps=2, num_envs=2, rollout_length=1),
    seed=0,
)


def read_run_config(path: Path) -> RunConfig:
    """Read `config.yaml` of a run folder.

    Raises:
        ConfigError: it is missing or was changed into something that is not a run's settings.
    """
    return run_config_of(load_yaml(path), str(path))


def run_config_of(content: dict[str, Any], origin: str) -> RunConfig:
    """Return the settings of a run from plain values.

    Args:
        content: fields of `RunConfig`, as `RunConfig.to_yaml` or a record has them.
        origin: where they come from, for messages.

    Raises:
        ConfigError: a field is missing, unknown or invalid.
    """
    content = dict(content)
    required = [f.name for f in fields(RunConfig) if f.default is f.default_factory is MISSING]
    missing = [name for name in required if name not in content]
    if missing:
        raise ConfigError(f"{origin} lacks {missing[0]!r}; it is not the configuration of a run")
    protocol = content.pop("protocol")
    method_config = content.pop("method_config")
    if not isinstance(protocol, dict) or not isinstance(method_config, dict):
        raise ConfigError(f"{origin} holds no settings under 'protocol' or 'method_config'")
    try:
        config_digest(method_config)  # a run is told from others by its digest
    except TypeError as error:
        raise ConfigError(
            f"{origin} has under 'method_config' what no setting is ({error}); give numbers, text, "
            f"true or false, null, lists or mappings"
        ) from error
    # The nested fields depend on each other (steps, environments), so they are set in one go.
    config = with_overrides(_TEMPLATE, {**content, "protocol": protocol})
    return replace(config, method_config=method_config)
