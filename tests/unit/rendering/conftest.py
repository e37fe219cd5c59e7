"""A place to draw in, and an untrained policy on three small bodies."""

from dataclasses import replace

import pytest
import torch

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation.evaluate import Scoring
from gmc_bench.evaluation.one_episode import WantedEpisode
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.replay import replay_episode
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from tests.support.toy import TOY, ToyConfig

BODIES = (chain(3), star(4), biped())


@pytest.fixture
def drawing():
    """Skip, with the reason, where no picture can be drawn."""
    try:
        Canvas(64, 64).close()
    except ConfigError as error:
        pytest.skip(str(error))


class Subject:
    """A policy with random weights."""

    def __init__(self, task=TASK, bodies=BODIES):
        torch.manual_seed(3)
        spec = TokenSpec(max_limbs=6, joints_per_limb=2, num_heights=task.num_heights)
        self.model = ActorCritic(TOY, ToyConfig(), spec)
        core = EnvironmentCore(task, bodies, 1, token_spec=spec, num_threads=1)
        self.normalizer = TokenNormalizer(core.table)
        self.task = replace(task, horizon=60)
        self.bodies = bodies

    @property
    def policy(self):
        return Policy(self.model, self.normalizer)

    def scoring(self, mode):
        return Scoring(
            task=self.task, bodies=self.bodies, episodes=3, mode=mode, seed=5, num_threads=1
        )

    def score(self, mode="deterministic", observers=()):
        """Return the results of 3 episodes of every body."""
        return self.scoring(mode).run(self.policy, observers)

    def replay(self, body, episode, mode="deterministic", seconds=None, on_step=None):
        """Return one of these episodes."""
        wanted = WantedEpisode(
            scoring=self.scoring(mode), body=body, episode=episode, seconds=seconds
        )
        return replay_episode(self.policy, wanted, on_step)


@pytest.fixture(params=["incline", "exploration", "obstacles", "vt"])
def ground_subject(request):
    """The policy on each of the tasks that are not flat and empty."""
    return Subject(TASKS.get(f"unimal-{request.param}-v1"))


@pytest.fixture
def subject():
    """The policy."""
    return Subject()


@pytest.fixture
def wild_subject():
    """The policy on a body whose simulation breaks in its first step, at finite numbers."""
    body = chain(3)
    limbs = tuple(
        replace(
            limb,
            joints=tuple(replace(joint, armature=0.0, damping=0.0) for joint in limb.joints),
        )
        for limb in body.limbs
    )
    motors = tuple(replace(motor, gear=1e5) for motor in body.actuators)
    return Subject(bodies=(replace(body, limbs=limbs, actuators=motors),))
