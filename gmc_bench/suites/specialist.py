"""The rules of one policy per body: how much each is trained, and with which settings."""

from dataclasses import dataclass, replace

from gmc_bench.suites.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class SpecialistRules:
    """What a body has of its own under a protocol; everything else is the protocol's.

    A specialist is a reference, not a competitor, so its budget may differ from a body's share of a
    shared policy's: tables state it.
    """

    env_steps: int
    """Control steps of a body; rounded down to whole iterations."""
    num_envs: int
    """Parallel environments of a body."""
    rollout_length: int
    """Control steps per environment and iteration."""
    repeat: int
    """Epochs over each rollout."""
    batch_size: int
    """Transitions of a body per gradient step."""
    lr: float
    """Peak learning rate."""
    seeds: tuple[int, ...] | None = None
    """Seeds of a complete row; none takes the protocol's."""
    episodes: int | None = None
    """Evaluation episodes per body and mode; none takes the protocol's. Other scores are divided by
    these, so they must be known better than what is averaged over bodies."""

    def on(self, protocol: Protocol, num_bodies: int) -> Protocol:
        """Return a protocol with the rules of so many bodies that are trained side by side."""
        return replace(
            protocol,
            env_steps=self.env_steps * num_bodies,
            num_envs=self.num_envs * num_bodies,
            rollout_length=self.rollout_length,
            seeds=self.seeds or protocol.seeds,
            evaluation=replace(
                protocol.evaluation, episodes=self.episodes or protocol.evaluation.episodes
            ),
            ppo=replace(
                protocol.ppo,
                repeat=self.repeat,
                batch_size=self.batch_size * num_bodies,
                lr=self.lr,
            ),
        )
