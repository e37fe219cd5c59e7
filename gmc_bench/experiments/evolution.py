"""Evolution of bodies by what they learn: one policy trains on all of them, the best have children.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202: random founders, the fitness of a body is its
    return after learning, the fitter have mutated children. Differs: bodies do not learn alone;
    one policy learns on the whole population and goes on from generation to generation, so that a
    body costs thousands of steps instead of millions. Generations replace tournaments.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmc_bench.bodies.importer import check_free_id
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import data_dir, store_set
from gmc_bench.bodies.summary import describe_set, render_set
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.experiments.events import Listener, Listeners, Progress, Remark
from gmc_bench.experiments.resolve import check_threads
from gmc_bench.experiments.run_folder import LockedFolder
from gmc_bench.generation.breeding import breed
from gmc_bench.generation.evolution import Evolution, Generation
from gmc_bench.generation.lineage import grow_lineage
from gmc_bench.generation.mutation import MAX_LIMBS
from gmc_bench.methods import METHODS
from gmc_bench.policies.policy import Policy
from gmc_bench.records.store import write_atomic
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.tasks import TASKS
from gmc_bench.training.checkpoint import Checkpoint, read_latest, write_checkpoint
from gmc_bench.training.trainer import Iteration, Trainer

TASK, METHOD = "unimal-ft-v1", "recmorph"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evolved:
    """Outcome of an evolution, kept as a set."""

    bodies: MorphologySet
    last: Generation
    folder: Path
    """Where the set is stored."""

    @property
    def text(self) -> str:
        """What evolved, for people."""
        return (
            f"{render_set(describe_set(self.bodies))}\n{_line(self.last)}\n\nkept in  {self.folder}"
        )


class EvolutionFolder(LockedFolder):
    """The folder of the last generations, locked while open; see `LockedFolder`.

    It is made with its marker, the settings in JSON, which older folders lack.
    """

    marker = "evolution.json"
    verb = "morphologies evolve"

    def __init__(self, settings: Evolution) -> None:
        path = evolution_folder(settings)
        if not (path / self.marker).is_file():
            text = json.dumps(_identity(settings), indent=1)
            write_atomic(path / self.marker, f"{text}\n".encode())
        super().__init__(path)


def generation_protocol(settings: Evolution) -> Protocol:
    """Return how a generation trains: many environments, one pass over each short rollout."""
    return Protocol(
        name="evolution",
        preset="lite",
        env_steps=settings.env_steps,
        num_envs=settings.num_envs,
        rollout_length=16,
        ppo=PPOConfig(repeat=1, batch_size=512, lr=1e-3, decay_start=1.0),
        return_window=1.0,  # all episodes of the generation count
    )


def evolution_digest(settings: Evolution) -> str:
    """Return the hash of everything but the number of generations, which may be raised later."""
    return config_digest(_identity(settings))


def _identity(settings: Evolution) -> dict[str, Any]:
    """Return what tells an evolution from others."""
    rules = asdict(generation_protocol(settings))
    content = {**asdict(settings), "rules": rules, "method": METHOD, "task": TASK}
    del content["generations"]
    return content


def evolution_folder(settings: Evolution) -> Path:
    """Return the folder that keeps the last generations of an evolution."""
    return data_dir() / "evolutions" / evolution_digest(settings)[:16]


def evolve(
    settings: Evolution, *, num_threads: int = 1, listener: Listener | None = None
) -> Generation:
    """Let a population train and breed, going on after the last generation that is on disk.

    Args:
        settings: of the evolution.
        num_threads: of simulation and networks.
        listener: told how far each generation's training is, and what came out.

    Returns:
        The last generation.

    Raises:
        ConfigError: more generations than asked for are on disk, or there are fewer threads here.
        RunFolderError: another process is evolving the same population.
        StorageError: the folder cannot be written.
        CheckpointError: what is there is damaged.
    """
    check_threads(num_threads)  # before founders are grown, which takes long
    with EvolutionFolder(settings) as folder:
        return _evolve(settings, folder, num_threads, Listeners(listener))


def _evolve(
    settings: Evolution, folder: EvolutionFolder, num_threads: int, emit: Listener
) -> Generation:
    digest = evolution_digest(settings)
    kept = read_latest(folder.path, digest)
    if kept:
        emit(Remark(f"Going on after generation {kept.iteration}, kept in {folder.path}."))
    if kept and kept.iteration > settings.generations:
        raise ConfigError(
            f"{settings.generations} generations were asked for, but this evolution is at "
            f"generation {kept.iteration} already, kept in {folder.path}; ask for at least as "
            f"many, or remove that folder"
        )
    last = _generation(kept) if kept else None
    while last is None or last.number < settings.generations:
        number = last.number + 1 if last else 1
        bodies, births = breed(settings, last)
        trainer = _trainer(settings, tuple(bodies.values()), number, num_threads)
        if kept:
            _go_on(trainer, kept.state)
        total = trainer.env_steps_planned

        def tell(done: Iteration, what: str = f"generation {number}", total: int = total) -> None:
            emit(Progress(what, done.env_steps, total, "step"))

        trainer.train(tell)
        returns = np.nan_to_num(trainer.tracker.body_returns, nan=-math.inf)
        last = Generation(
            number=number,
            lineages=tuple(bodies),
            returns=tuple(map(float, returns)),
            births=births,
        )
        kept = Checkpoint(digest, number, _state(trainer, last))
        folder.lease.require()
        write_checkpoint(folder.path, kept)
        emit(Remark(_line(last)))
    return last


def evolve_set(set_id: str, settings: Evolution, train: int, test: int, **options: Any) -> Evolved:
    """Evolve bodies and keep the best of the last generation as a set.

    Args:
        set_id: id of the set.
        settings: of the evolution.
        train: bodies of the train split.
        test: bodies of the test split; the ranking is dealt out to both splits in turn, so that
            they are about equally fit, and related to each other.
        options: see `evolve`.

    Raises:
        ConfigError: there are fewer bodies than that, or see `evolve`.
        MorphologySetError: the id cannot be used.
        StorageError: something cannot be written.
    """
    check_free_id(set_id)
    wanted = train + test
    if train < 1 or test < 1 or wanted > settings.population:
        raise ConfigError(
            f"{train} train and {test} test bodies were asked for of a population of "
            f"{settings.population}; ask for at least one each, or for a larger population"
        )
    last = evolve(settings, **options)
    splits: dict[str, list[Morphology]] = {"train": [], "test": []}
    for place, lineage in enumerate(last.ranked[:wanted]):
        # A test body wherever their share of the bodies so far passes a whole number.
        tested = (place + 1) * test // wanted > place * test // wanted
        splits["test" if tested else "train"].append(grow_lineage(settings.seed, lineage))
    bodies = MorphologySet(
        id=set_id,
        splits={name: tuple(members) for name, members in splits.items()},
        source=(
            f"Evolved by gmc-bench in the UNIMAL design space (Gupta et al. 2021, "
            f"arXiv:2102.02202) over {settings.generations} generations, settings "
            f"{evolution_digest(settings)[:12]} with the seed {settings.seed}."
        ),
        licence="same as gmc-bench",
    )
    return Evolved(bodies=bodies, last=last, folder=store_set(bodies))


def _line(last: Generation) -> str:
    founders = len({lineage[0] for lineage in last.lineages})
    return (
        f"generation {last.number}: training return {last.mean_return:.1f} on "
        f"{len(last.lineages)} bodies, descendants of {founders} founders"
    )


def _trainer(
    settings: Evolution, bodies: tuple[Morphology, ...], number: int, num_threads: int
) -> Trainer:
    method, task, rules = METHODS.load(METHOD), TASKS.get(TASK), generation_protocol(settings)
    env = MorphologyVectorEnv(
        task,
        bodies,
        rules.num_envs,
        token_spec=task.token_spec(MAX_LIMBS + 1, 2),
        num_threads=num_threads,
    )
    # Every generation draws its own noise.
    seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
    config = method.make_config(rules.preset)
    policy = Policy.of_table(method, env.table, seed=seed, config=config)
    return Trainer(env, policy, rules, seed=seed, num_threads=num_threads)


def _state(trainer: Trainer, last: Generation) -> dict[str, Any]:
    return {
        "policy": trainer.policy.tensors(),
        "optimizer": trainer.algorithm.get_state(),
        "rewards": trainer.learner.rewards.moments.get_state(),
        "population": {key: value for key, value in asdict(last).items() if key != "number"},
    }


def _go_on(trainer: Trainer, state: dict[str, Any]) -> None:
    """Let a trainer begin with what the generation before has learned, its schedule anew.

    The features fixed by its bodies are normalised already, by statistics over this generation;
    those that are taken over, of the first one, do not count. Sets were evolved so: another rule
    would make others.
    """
    trainer.policy.set_tensors(state["policy"], "the generation before")
    trainer.algorithm.set_state({**state["optimizer"], "last_epoch": 0})
    trainer.learner.rewards.moments.set_state(state["rewards"])


def _generation(kept: Checkpoint) -> Generation:
    population = kept.state["population"]
    return Generation(
        number=kept.iteration,
        lineages=tuple(map(tuple, population["lineages"])),
        returns=tuple(population["returns"]),
        births=population["births"],
    )
