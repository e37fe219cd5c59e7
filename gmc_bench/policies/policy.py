"""A controller that can act: networks, observation statistics, token order and memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gmc_bench.core.arguments import require_instance
from gmc_bench.core.config import shown, to_dict, with_overrides
from gmc_bench.core.device import require_known_device
from gmc_bench.core.errors import CheckpointError, ConfigError, PluginError
from gmc_bench.core.integers import is_count, require_seed
from gmc_bench.core.memory import available_memory
from gmc_bench.core.registry import lasting_target
from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.envs.bodies import require_bodies, smallest_layout, tabulate
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.policies.body_streams import BodyStreams
from gmc_bench.policies.bound import BoundPolicy, Observed
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.observations import (
    Observation,
    is_complete,
    observed,
    part_of,
    require_body,
    require_same_body,
    shown_content,
    shown_table,
)
from gmc_bench.policies.options import PolicyOptions
from gmc_bench.policies.policy_file import (
    FORMAT,
    complete_description,
    read_policy_file,
    write_policy_file,
)
from gmc_bench.policies.size import WEIGHT, count_parameters, within_memory
from gmc_bench.policies.tensors import decode_tensors, encode_tensors
from gmc_bench.policies.torch_state import forked_rng
from gmc_bench.suites.schema import MOST_SLOTS
from gmc_bench.tasks import TASKS, Task
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.serialization import Serialization, make_serialization
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import MorphologyTable

DEFAULT_OPTIONS = PolicyOptions()
"""The benchmark's options."""
_MODEL, _NORMALIZER = "model.", "normalizer."
_CRITIC = f"{_MODEL}critic."
_MOST_NUMBERS = 10_000_000
"""Numbers in the tokens of one body that a file may ask for."""


class Policy:
    """A controller of bodies.

    In an environment of gymnasium:

        policy = Policy.load("walk.safetensors")
        env = gymnasium.make_vec("gmc_bench/unimal-ft-v1", num_envs=4, token_spec=policy.spec)
        observation, info = env.reset(seed=0)
        policy.reset(env)
        observation, *_ = env.step(policy.act(observation))

    Elsewhere, `on` returns the policy on rows of bodies, with a memory of its own.

    Args:
        model: actor and critic.
        normalizer: observation statistics.
        order: in which order it reads the limbs of a body.
        method: the name that finds its method again: a registered id, `FILE.py:SPEC` or
            `MODULE:SPEC`; default the method's id.
        digests: content hashes of the bodies that have separate weights, in their order; none if
            bodies share weights, or the hashes are not known.
    """

    def __init__(
        self,
        model: ActorCritic,
        normalizer: TokenNormalizer,
        *,
        order: Order = "dfs",
        method: str | None = None,
        digests: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.normalizer = normalizer
        self.order = order
        self.method = method or model.method.id
        self.digests = tuple(digests)
        self.random_state: torch.Tensor | None = None
        """State of torch's generator behind the initial weights: networks that draw random numbers
        in training (dropout) go on from there."""
        self.acts_only = False
        """Whether it was read without its critic: it can act, but not be trained further."""
        self._env: Any = None
        self._bound: BoundPolicy | None = None
        self._shown: bytes = b""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the environment that it acts in, and what it has seen: a copy has none."""
        return {**vars(self), "_env": None, "_bound": None, "_shown": b""}

    def __repr__(self) -> str:
        return (
            f"<policy of {self.model.method.id}: {self.model.num_parameters():,} parameters, "
            f"bodies of up to {self.spec.max_limbs} tokens, on {self.device}>"
        )

    @property
    def spec(self) -> TokenSpec:
        """Layout of the tokens that the policy reads."""
        return self.model.spec

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self.model.action_std.device

    # Making one.

    @classmethod
    def untrained(
        cls,
        method: str | MethodSpec,
        task: str | Task,
        bodies: Sequence[Any],
        *,
        seed: int = 0,
        config: Any = None,
        spec: TokenSpec | None = None,
        options: PolicyOptions = DEFAULT_OPTIONS,
    ) -> "Policy":
        """Return the policy that training with a seed starts from.

        Args:
            method: the controller, or its name.
            task: what it is for, or its id.
            bodies: M bodies to train on.
            seed: of the run.
            config: settings of the method, or changes to its defaults by name.
            spec: token layout; default the smallest that fits all bodies.
            options: everything else.

        Raises:
            GmcBenchError: a name is not known, the networks cannot be built, or a body does not
                fit the layout.
        """
        task = task if isinstance(task, Task) else TASKS.get(task)
        require_bodies(task, bodies)
        spec = smallest_layout(task, bodies) if spec is None else spec
        require_instance(spec, TokenSpec, "a policy", "leave it out for the smallest that fits")
        require_instance(options, PolicyOptions, "a policy", "leave it out for the usual ones")
        table = tabulate(task, bodies, spec)
        return cls.of_table(method, table, seed=seed, config=config, options=options)

    @classmethod
    def of_table(
        cls,
        method: str | MethodSpec,
        table: MorphologyTable,
        *,
        seed: int = 0,
        config: Any = None,
        options: PolicyOptions = DEFAULT_OPTIONS,
    ) -> "Policy":
        """Return what `untrained` does, for bodies whose table is at hand."""
        with forked_rng(run_seeds(seed)[0]):
            found, config = _settings_of(method, config)
            policy = cls._made(method, found, config, table, options, len(table))
            policy.random_state = torch.get_rng_state()
            if policy.model.per_body:
                _init_per_body_weights(policy.model, BodyStreams(seed, table.digests), options)
        return policy

    @classmethod
    def of_tensors(
        cls,
        method: str | MethodSpec,
        data: bytes,
        origin: Any,
        *,
        config: Any,
        spec: TokenSpec,
        num_bodies: int,
        digests: Sequence[str] = (),
        options: PolicyOptions,
    ) -> "Policy":
        """Return the policy that the content of a file holds.

        Args:
            method: the controller, or its name.
            data: safetensors, as `to_bytes` returns them.
            origin: where they come from, for messages.
            config: see `untrained`.
            spec: token layout.
            num_bodies: bodies that it was trained on; counts for separate weights per body only.
            digests: of these bodies, likewise; then it acts on them alone.
            options: everything else.

        Raises:
            CheckpointError: the content is damaged or of another method.
            ConfigError: the networks need more memory than is free.
            PluginError: the networks cannot be built.
        """
        with forked_rng():  # a method's file may draw, too
            found, config = _settings_of(method, config)
        # Of separate bodies, the file holds statistics of the features of each.
        separate = found.capabilities.per_body
        if separate and num_bodies * spec.num_context > len(data):
            raise CheckpointError(
                f"{origin} holds too few numbers for separate weights of {num_bodies:,} bodies; "
                f"restore the file"
            )
        table = _featureless(spec, num_bodies if separate else 1, digests)
        count = partial(count_parameters, found, config, spec, num_bodies)
        with (
            forked_rng(),
            within_memory(count, bytes_each=WEIGHT, free=available_memory()),
        ):
            policy = cls._made(method, found, config, table, options, num_bodies)
        policy.set_tensors(decode_tensors(data, origin), origin)
        return policy

    @classmethod
    def _made(
        cls,
        method: str | MethodSpec,
        found: MethodSpec,
        config: Any,
        table: MorphologyTable,
        options: PolicyOptions,
        num_bodies: int,
    ) -> "Policy":
        """Return a policy whose initial weights are drawn from torch's generator."""
        model = ActorCritic(
            found,
            config,
            table.spec,
            options.action_std,
            num_bodies=num_bodies,
            precision=options.precision,
        )
        normalizer = TokenNormalizer(table, options.normalization, separate=model.per_body)
        # A file is found again from other working folders, too.
        name = lasting_target(method) if isinstance(method, str) else method.id
        return cls(
            _model_on(model, options.device),
            normalizer,
            order=options.order,
            method=name,
            digests=table.digests if model.per_body else (),
        )

    # Files.

    def tensors(self) -> dict[str, Array]:
        """Return copies of weights and statistics by name; without the critic if it `acts_only`.

        Statistics of separate bodies have a first dimension over bodies, as their weights have.
        """
        return {name: value.copy() for name, value in self._tensors(self.acts_only).items()}

    def _tensors(self, acts_only: bool) -> dict[str, Array]:
        """Return what `tensors` does, in the memory of the networks on a CPU."""
        weights = {
            f"{_MODEL}{name}": value.detach().cpu().numpy()
            for name, value in self.model.state_dict().items()
        }
        statistics = self.normalizer.get_state()
        found = weights | {f"{_NORMALIZER}{name}": value for name, value in statistics.items()}
        return _without_critic(found) if acts_only else found

    def to_bytes(self) -> bytes:
        """Return weights and statistics as safetensors; equal policies give equal bytes."""
        return encode_tensors(self._tensors(self.acts_only))

    def actor_bytes(self) -> bytes:
        """Return what acting takes, described: one file that `load` reads without anything else.

        It is half the size of `to_bytes`, because it leaves out the critic.
        """
        return encode_tensors(self._tensors(True), self._description())

    def set_tensors(self, tensors: dict[str, Array], origin: Any) -> None:
        """Take over weights and statistics of `tensors`; without a critic, the policy `acts_only`.

        Where it is bound to bodies already (`on`, `reset`, a trainer), the features fixed by them
        stay as they were normalised then.

        Raises:
            CheckpointError: names or shapes are those of another method; `origin` is named, and
                nothing was taken over.
        """
        acts_only = not any(name.startswith(_CRITIC) for name in tensors)
        expected = {name: value.shape for name, value in self._tensors(acts_only).items()}
        found = {name: value.shape for name, value in tensors.items()}
        differ = [name for name in expected | found if found.get(name) != expected.get(name)]
        if differ and all(name.startswith(_NORMALIZER) and name in found for name in differ):
            raise CheckpointError(
                f"{origin} holds observation statistics of the shape {found[differ[0]]}, expected "
                f"{expected.get(differ[0])}; evaluate it with the version of the method that made "
                f"it"
            )
        if differ:
            raise CheckpointError(
                f"{origin} holds the weights of another method or other settings; use the folder "
                f"of the run that made them"
            )
        weights, statistics = (
            {name.removeprefix(p): value for name, value in tensors.items() if name.startswith(p)}
            for p in (_MODEL, _NORMALIZER)
        )
        self.acts_only = acts_only
        self.model.load_state_dict(
            {name: torch.from_numpy(value.copy()) for name, value in weights.items()},
            strict=not self.acts_only,
        )
        if self.acts_only:
            with torch.no_grad():
                for weight in self.model.critic.parameters():
                    weight.fill_(torch.nan)  # nobody shall take its values for some
        self.normalizer.set_state(statistics)

    def save(self, path: str | Path) -> None:
        """Write weights and statistics with their description, one file that `load` reads.

        Args:
            path: `NAME.safetensors`.

        Raises:
            ConfigError: the name has another ending.
            StorageError: the file could not be written.
        """
        write_policy_file(path, self.tensors(), self._description())

    def _description(self) -> dict[str, Any]:
        """Return what rebuilds the policy for its tensors."""
        content = {
            "format": FORMAT,
            "method": self.method,
            "config": to_dict(self.model.config),
            "tokens": to_dict(self.spec),
            "num_bodies": self.model.num_bodies,
            "order": self.order,
            "normalization": self.normalizer.mode,
            "precision": self.model.precision,
        }
        return content | ({"bodies": list(self.digests)} if self.digests else {})

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "cpu", method: MethodSpec | None = None
    ) -> "Policy":
        """Read a policy that `save` or `actor_bytes` wrote.

        Args:
            path: `NAME.safetensors`.
            device: where the networks shall run.
            method: the controller, if its name in the file finds nothing here.

        Raises:
            CheckpointError: a file is missing or damaged, or is of another version.
            RecordError: it lies in a leaderboard whose ledger is damaged.
            ConfigError: torch has no such device here, or memory cannot hold the networks.
            GmcBenchError: the method cannot be loaded.
        """
        found = read_policy_file(path)
        content = found.description
        with complete_description(found.origin):
            if not isinstance(content["config"], Mapping):
                raise TypeError(f"its settings are {shown(content['config'])}")
            spec = with_overrides(TokenSpec(1), content["tokens"])
            _require_moderate(spec, content["num_bodies"])
            return cls.of_tensors(
                method or content["method"],
                found.data,
                found.origin,
                config=content["config"],
                spec=spec,
                num_bodies=content["num_bodies"],
                digests=content.get("bodies", ()),  # older files do not say
                options=PolicyOptions(
                    order=content["order"],
                    normalization=content["normalization"],
                    precision=content["precision"],
                    device=str(device),
                ),
            )

    # Acting.

    def on(
        self,
        table: MorphologyTable,
        num_rows: int,
        *,
        serialization: Serialization | None = None,
        silent_limbs: IntArray | None = None,
        stand_ins: bool = False,
    ) -> BoundPolicy:
        """Return the policy on rows of bodies, remembering nothing; see `BoundPolicy`.

        By default each body has one sequence of limbs, in the policy's order.

        Args:
            table: see `BoundPolicy`.
            num_rows: likewise.
            serialization: likewise.
            silent_limbs: likewise.
            stand_ins: the bodies are other ones in place of those of training, in their order;
                matters for separate weights per body only, which otherwise refuse them.

        Raises:
            ConfigError: it has separate weights for other bodies, or for these in another order.
        """
        if self.digests and table.digests != self.digests and not stand_ins:
            raise ConfigError(
                f"the policy has separate weights for {len(self.digests)} bodies, got {len(table)} "
                f"that are others or in another order; use the bodies they were trained on, in "
                f"their order"
            )
        return BoundPolicy(
            self.model,
            self.normalizer,
            table,
            num_rows,
            serialization=serialization or make_serialization(self.order, table),
            silent_limbs=silent_limbs,
        )

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Put the networks into evaluation mode, with weights that do not change inside."""
        was_training = self.model.training
        self.model.eval()
        try:
            with fixed_weights(self.model):
                yield
        finally:
            self.model.train(was_training)

    def reset(self, env: Any = None) -> None:
        """Forget what was seen: new episodes begin.

        Args:
            env: the environment of gymnasium that the policy acts in from now on, single or
                batched. An environment that shows everything about one body in its observations
                need not be given; one whose observations only hold the index of a body must be.

        Raises:
            ConfigError: its tokens have another layout than the policy's, or it is not one of
                gmc_bench's; then nothing is forgotten.
        """
        env, bound = getattr(env, "unwrapped", env), None
        if env is not None:
            core = getattr(env, "core", None)
            if not isinstance(core, EnvironmentCore):
                several = ", num_envs=N" if hasattr(env, "num_envs") else ""
                raise ConfigError(
                    f"{shown(env)} shows no bodies; give an environment of gmc_bench, made by "
                    f"gmc_bench.make_env(TASK{several}, token_spec=policy.spec)"
                )
            if core.spec != self.spec:
                raise ConfigError(
                    f"the environment shows tokens of the layout {core.spec}, but the policy reads "
                    f"{self.spec}; make the environment with token_spec=policy.spec"
                )
            bound = self.on(core.table, core.num_envs)
        self._env, self._bound, self._shown = env, bound, b""

    def act(self, observation: Observation, generator: torch.Generator | None = None) -> FloatArray:
        """Choose actions for what an environment of gymnasium shows.

        Where `reset` was given the environment, the recurrent state of rows whose episode has just
        begun is reset first.

        Args:
            observation: of a single environment, or of a batch.
            generator: source of randomness on the networks' device; default takes the most likely
                actions.

        Returns:
            (L, J) float32, or (B, L, J) for a batch; zero where there is no actuator.

        Raises:
            ConfigError: the observation says too little about its bodies, see `reset`, shows
                another body than the environment does that `reset` was given, has a number that is
                not finite, or is no observation; or the generator is not a `torch.Generator`, or on
                another device. Then the recurrent state stays as it was.
        """
        if generator is not None:
            fix = "seed one with torch.Generator().manual_seed(1)"
            require_instance(generator, torch.Generator, "drawing actions", fix)
            if generator.device.type != self.device.type:
                raise ConfigError(
                    f"drawing actions needs a Generator on {self.device}, where the policy is, got "
                    f"one on {generator.device}; make it with torch.Generator('{self.device}')"
                )
        bound = self._bound
        if self._env is None or bound is None:
            bound, seen = self._bound_to(observation)
        else:
            core = self._env.core
            index = core.morphology_index
            if not is_complete(observation):
                index = self._shown_index(observation)
            seen = observed(observation, self.spec, index)
            if is_complete(observation):
                self._require_bound_body(observation, int(index[0]))
            begun = np.flatnonzero(core.episode_length == 0)
            bound.start(begun, index[begun])
            bound.sequences[:] = index  # every body has one sequence

        def draw(distribution: MaskedGaussian) -> torch.Tensor:
            return distribution.sample(generator)

        with self.acting():
            actions = bound.act(seen, draw if generator is not None else None)
        return actions[0] if is_complete(observation) else actions

    def _shown_index(self, observation: Observation) -> IntArray:
        """Return the bodies that a batched observation shows, rows of the environment's table.

        Raises:
            ConfigError: there are others, or not one for each row.
        """
        core = self._env.core
        index = part_of(observation, "morphology_index", None)
        known = np.issubdtype(index.dtype, np.integer) and np.isin(
            index, np.arange(len(core.table))
        )
        if index.shape != (core.num_envs,) or not np.all(known):
            raise ConfigError(
                f"'morphology_index' must be one integer in 0..{len(core.table) - 1} for each of "
                f"{core.num_envs} environments, got {shown(index)}; give what the environment "
                f"returned to which the policy was reset"
            )
        return index

    def _require_bound_body(self, observation: Observation, body: int) -> None:
        """Raise unless a complete observation shows a body of the environment's table."""
        content = b"%d," % body + shown_content(observation, self.spec)
        if content != self._shown:  # control loops show the same body at every step
            require_same_body(observation, self._env.core.table, body)
            self._shown = content

    def _bound_to(self, observation: Observation) -> tuple[BoundPolicy, Observed]:
        """Return the policy on the body that an observation shows, and what changes in it.

        Its memory so far is kept.
        """
        if not is_complete(observation) or self.model.per_body or self.order == "random":
            raise ConfigError(
                "the observation does not tell the policy all about its bodies; say which "
                "environment it is of with policy.reset(env)"
            )
        seen = observed(observation, self.spec, np.zeros(1, np.int64))
        table = shown_table(observation, self.spec)
        content = shown_content(observation, self.spec)
        if self._bound is None or self._shown != content:
            require_body(table)
            self._bound, self._shown = self.on(table, 1), content
        return self._bound, seen


def run_seeds(seed: int) -> list[int]:
    """Return a run's seeds, four numbers.

    They are those of the initial weights, of minibatches, of action noise, and, the fourth, of both
    the environments of training and the draws of sequences of limbs.

    Raises:
        ConfigError: the seed is no integer, or negative.
    """
    sequence = np.random.SeedSequence(require_seed(seed))
    found: list[int] = sequence.generate_state(4, np.uint32).tolist()
    return found


@torch.no_grad()
def _init_per_body_weights(bank: ActorCritic, streams: BodyStreams, options: PolicyOptions) -> None:
    """Give every body the weights that it would start from alone."""
    for body, seed in enumerate(streams.weights()):
        torch.default_generator.manual_seed(seed)
        alone = ActorCritic(
            bank.method, bank.config, bank.spec, options.action_std, precision=options.precision
        )
        parts = dict(alone.named_parameters())
        for name, whole in bank.named_parameters():
            part = parts.get(name)
            if part is None or part.shape != (1, *whole.shape[1:]) or len(whole) != len(streams):
                raise PluginError(
                    f"the method {bank.method.id!r} claims 'per_body', but its parameter {name!r} "
                    f"has the shape {tuple(whole.shape)} for {len(streams)} bodies; give every "
                    f"parameter a first dimension over bodies"
                )
            whole[body] = part[0]


def _model_on(model: ActorCritic, device: str) -> ActorCritic:
    """Return networks on a device.

    Raises:
        ConfigError: torch has no such device here, or it is of a kind that cannot act.
    """
    require_known_device(device)
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # the latter of a torch without CUDA
        raise ConfigError(
            f"the device {device!r} cannot be used here ({str(error).splitlines()[0]}); use the "
            f"CPU, or a machine that has it, on which a run is continued"
        ) from error


def _settings_of(method: str | MethodSpec, config: Any) -> tuple[MethodSpec, Any]:
    """Return a method and its settings, given as `Policy.untrained` takes them.

    Raises:
        GmcBenchError: the method cannot be loaded, or these are no settings of it.
    """
    found = method if isinstance(method, MethodSpec) else METHODS.load(method)
    if config is None or isinstance(config, Mapping):
        config = found.make_config(changes=config)
    elif not isinstance(config, found.config_class()):
        raise ConfigError(
            f"the settings of the method {found.id!r} are a {found.config_class().__name__}, or "
            f"changes to its defaults by name, got {shown(config)}; give such a mapping, or what "
            f"make_config of the method returns"
        )
    return found, config


def _require_moderate(spec: TokenSpec, num_bodies: Any) -> None:
    """Raise `ValueError` for sizes in a file that no policy has, before anything is made of them.

    Networks of any layout run once on two bodies when they are built.
    """
    sizes = (spec.max_limbs, spec.joints_per_limb, spec.num_heights)
    if max(sizes) > MOST_SLOTS or spec.max_limbs * spec.num_features > _MOST_NUMBERS:
        raise ValueError(
            f"bodies of {sizes[0]:,} tokens with {sizes[1]:,} joints each and {sizes[2]:,} heights "
            f"are too large"
        )
    if not is_count(num_bodies):
        raise ValueError(f"it must be for at least one body, got {shown(num_bodies)}")


def _featureless(spec: TokenSpec, count: int, digests: Sequence[str]) -> MorphologyTable:
    """Return a table of bodies without features, for statistics that are read later.

    Its arrays take no memory, however many bodies there are.
    """
    shape = (count, spec.max_limbs)
    return MorphologyTable(
        spec=spec,
        names=("",) * count,
        digests=tuple(digests),
        context=np.broadcast_to(np.float32(0), (*shape, spec.num_context)),
        limb_padding_mask=np.broadcast_to(np.False_, shape),
        action_padding_mask=np.broadcast_to(np.False_, (*shape, spec.joints_per_limb)),
        parents=np.broadcast_to(np.int64(0), shape),
        num_limbs=np.full(count, spec.max_limbs),
    )


def _without_critic(tensors: dict[str, Array]) -> dict[str, Array]:
    return {name: value for name, value in tensors.items() if not name.startswith(_CRITIC)}
