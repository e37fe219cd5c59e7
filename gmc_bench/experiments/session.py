"""Session of a run: its settings with all names resolved, and the policy they describe."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.conformance.method_description import require_kept
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.memory import available_memory
from gmc_bench.envs.bodies import require_bodies
from gmc_bench.experiments.devices import device_here
from gmc_bench.experiments.method import (
    check_shares,
    executed_digest,
    require_same_text,
    source_digest,
)
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.methods.policy import ActorCritic, too_large
from gmc_bench.policies.policy import Policy, run_seeds
from gmc_bench.policies.size import TRAINED, WEIGHT, count_parameters, within_memory
from gmc_bench.policies.torch_state import TorchState, forked_rng, require_gradients
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import planned_steps, token_spec
from gmc_bench.tasks import TASKS, Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.run_config import RunConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Session:
    """Everything a run needs, resolved."""

    config: RunConfig
    method: MethodSpec
    task: Task
    bodies: MorphologySet
    spec: TokenSpec

    def __repr__(self) -> str:
        return (
            f"<{self.method.id} on {self.task.id}, bodies {self.bodies.id}, seed "
            f"{self.config.seed}>"
        )

    @property
    def env_steps(self) -> int:
        """Control steps of the whole run, over all environments; 0 where nothing is trained."""
        if self.config.untrained:
            return 0
        return planned_steps(
            self.config.protocol,
            len(self.bodies.split("train")),
            per_body=self.method.capabilities.per_body,
        )


def open_session(config: RunConfig, bodies: MorphologySet | None = None) -> Session:
    """Resolve the names in a run's settings.

    Args:
        config: the settings.
        bodies: the body set, if it is at hand; otherwise it is loaded and checked.

    Raises:
        ConfigError: the body set, the task, or the file of the method is not the one the run used.
    """
    method = _load_same_method(config)
    if bodies is not None and bodies.id != config.morphologies:
        raise ConfigError(
            f"the run was made on the body set {config.morphologies!r}, got the set {bodies.id!r} "
            f"for it; leave it out, or score on other bodies with evaluate(bodies=...)"
        )
    bodies = bodies or load_morphologies(config.morphologies)
    if bodies.digest != config.morphologies_digest:
        raise ConfigError(
            f"the body set {config.morphologies!r} has changed since the run was started "
            f"(hash {bodies.digest[:12]}, expected {config.morphologies_digest[:12]}); import the "
            f"version the run used"
        )
    suite, task = SUITES.get(config.suite), TASKS.get(config.task)
    if config.task_digest is not None and config.task_digest != task.digest:
        raise ConfigError(
            f"the task {config.task!r} has changed since the run was started (hash "
            f"{task.digest[:12]}, expected {config.task_digest[:12]}); undo the change, or give "
            f"the changed task a version of its own"
        )
    require_bodies(task, bodies.split("train"))
    return Session(
        config,
        method,
        task,
        bodies,
        token_spec(suite, bodies, task, config.tokens),
    )


def _load_same_method(config: RunConfig) -> MethodSpec:
    """Return a run's method; of a file, made of the very text that the run was started with."""
    expected = config.method_source_digest
    if expected is not None:  # before a text is executed that the run does not have
        require_same_text(config.method, source_digest(config.method), expected)
    method = METHODS.load(config.method, expected)
    if expected is not None:
        require_same_text(config.method, executed_digest(config.method, method), expected)
    return method


def check_networks(session: Session, *, trains_here: bool = True) -> None:
    """Build the method's networks once, so that a broken method is refused before it starts.

    Args:
        session: the run.
        trains_here: whether it will be trained on this machine, whose memory must then hold more
            than the weights.

    Raises:
        PluginError: the networks cannot be built or do not map tokens to numbers of the right
            shape; they are to be trained but have no trainable parameter; or what the method keeps
            of its trials is not what they found.
        ConfigError: the networks need more memory than is free, separate weights per body meet
            several token orders per body, a rollout is no whole number of the sequences that the
            method's training unrolls, or torch's inference mode is on.
    """
    check_shares(session.config, session.method)
    require_kept(session.method)  # a record holds the trials: after training it would be late
    if session.method.capabilities.per_body and session.config.tokens.order == "siblings":
        raise ConfigError(
            f"the method {session.method.id!r} has separate weights per body and cannot be trained "
            f"on several token orders of each; choose another --tokens.order than 'siblings'"
        )
    try:
        with _within_memory(session, trains_here=trains_here) as require:
            networks = make_networks(session)
            require(networks.num_parameters())
        if trains_here and session.env_steps:
            require_gradients(networks)
    except MemoryError as error:
        raise too_large(session.method, str(error)) from error
    steps, length = networks.sequence_length, session.config.protocol.rollout_length
    if length % steps:
        raise ConfigError(
            f"the method {session.method.id!r} is trained on sequences of {steps} steps, so the "
            f"protocol's 'rollout_length' must be a multiple of that, got {length}"
        )


def _within_memory(
    session: Session, *, trains_here: bool
) -> AbstractContextManager[Callable[[int], None]]:
    """Refuse networks of a run that this machine's memory cannot hold."""
    config = session.config
    # A device has its own memory for everything else; weights are drawn here all the same.
    trained = trains_here and session.env_steps > 0 and not config.device.startswith("cuda")
    count = partial(
        count_parameters,
        session.method,
        session.method.make_config(changes=config.method_config),
        session.spec,
        len(session.bodies.split("train")),
    )
    return within_memory(count, bytes_each=TRAINED if trained else WEIGHT, free=available_memory())


def make_networks(session: Session) -> ActorCritic:
    """Return the untrained networks of a run."""
    with forked_rng():
        return ActorCritic(
            session.method,
            session.method.make_config(changes=session.config.method_config),
            session.spec,
            session.config.protocol.action_std,
            num_bodies=len(session.bodies.split("train")),
            precision=session.config.precision,
        )


def torch_state(session: Session) -> TorchState:
    """Return the generators, threads and rounding of torch that a run's policy is measured with.

    The last bits of a score, and so of all that is compared with it, depend on them.
    """
    config = session.config
    seed, device = run_seeds(config.seed)[0], device_here(config.device)
    return TorchState(config.threads, device, seed, precision=config.precision)


def limb_task(session: Session) -> Task:
    """Return the task of a run whose bodies consist of limbs.

    Raises:
        ConfigError: it is about quadrupeds.
    """
    if session.task.parts != "limbs":
        raise ConfigError(
            f"this is about bodies of limbs, but {session.task.id} is about quadrupeds, whose "
            f"tokens are actuators; 'gmc-bench replay' shows their recorded episodes, 'gmc-bench "
            f"deploy' makes trials of them, with videos"
        )
    return session.task


def untrained_policy(session: Session) -> Policy:
    """Return the policy that a run starts from."""
    policy = Policy.untrained(
        session.method,
        session.task,
        session.bodies.split("train"),
        seed=session.config.seed,
        config=session.config.method_config,
        spec=session.spec,
        options=session.config.policy_options,
    )
    policy.method = session.config.method
    return policy


def load_trained(session: Session, folder: RunFolder) -> Policy:
    """Load the final policy of a run, with a warning if its method has had another version since.

    Raises:
        CheckpointError: the file is missing, damaged, or of another method.
        RecordError: the run's record is damaged.
    """
    method = session.method
    record = folder.find_record()
    if record is not None and record.method_version != method.version:
        _LOG.warning(
            "%s has version %d, the run had %d: its policy may act as another network",
            *(method.id, method.version, record.method_version),
        )
    return policy_of_bytes(session, folder.read_policy(), folder.policy)


def policy_of_bytes(session: Session, data: bytes, origin: Path) -> Policy:
    """Rebuild a policy from the content of its file.

    Args:
        session: the run that made it.
        data: the content.
        origin: the file, for messages.

    Raises:
        CheckpointError: the content is damaged or of another method.
    """
    bodies = session.bodies.split("train")
    policy = Policy.of_tensors(
        session.method,
        data,
        origin,
        config=session.config.method_config,
        spec=session.spec,
        num_bodies=len(bodies),
        digests=[body.digest for body in bodies],
        options=session.config.policy_options,
    )
    policy.method = session.config.method
    return policy
