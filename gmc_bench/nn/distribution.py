"""The policy's action distribution: independent Gaussians, with absent actuators left out."""

import math

import torch


class MaskedGaussian:
    """Diagonal Gaussian over the real actuators of a batch of bodies.

    Absent actuators (padding slots, and slots of a limb without that joint) take no part: their
    action is always zero, and they add nothing to log-probability and entropy, whatever the
    network put out there.

    log p(a) = sum over real actuators of -(a - mean)^2 / (2 std^2) - ln std - ln(2 pi) / 2

    Args:
        mean: (B, L, J), network output; anything where there is no actuator.
        std: standard deviation, a scalar tensor or broadcastable to (B, L, J), positive.
        action_padding_mask: (B, L, J) bool, True where there is no actuator.

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931. Differs: the entropy is the sum over real
        actuators, where the public code divides it by the number of slots.
    """

    def __init__(
        self, mean: torch.Tensor, std: torch.Tensor, action_padding_mask: torch.Tensor
    ) -> None:
        self.action_padding_mask = action_padding_mask
        self.mean = mean.masked_fill(action_padding_mask, 0.0)
        self.std = std

    @property
    def mode(self) -> torch.Tensor:
        """(B, L, J), the most likely action; zero where there is no actuator."""
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        """Draw actions, without gradient.

        Args:
            generator: source of randomness on the mean's device; `None` takes torch's global one.

        Returns:
            (B, L, J), zero where there is no actuator.
        """
        with torch.no_grad():
            noise = torch.randn(
                self.mean.shape,
                generator=generator,
                dtype=self.mean.dtype,
                device=self.mean.device,
            )
            return self.perturbed(noise)

    def perturbed(self, noise: torch.Tensor) -> torch.Tensor:
        """Return mean + std * noise, zero where there is no actuator.

        Args:
            noise: (B, L, J), standard normal numbers.

        Returns:
            (B, L, J).
        """
        return (self.mean + self.std * noise).masked_fill(self.action_padding_mask, 0.0)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        """Return the log-density of actions.

        Args:
            action: (B, L, J); entries without an actuator are ignored.

        Returns:
            (B,), natural logarithm, summed over real actuators.
        """
        # Masked before squaring, so that not even a NaN in padding reaches value or gradient.
        error = (action - self.mean).masked_fill(self.action_padding_mask, 0.0) / self.std
        constant = self.std.log() + 0.5 * math.log(2 * math.pi)
        return self._sum(-0.5 * error.square() - constant)

    def entropy(self) -> torch.Tensor:
        """Return the differential entropy, (B,), in nats, summed over real actuators."""
        per_actuator = self.std.log() + 0.5 * math.log(2 * math.pi * math.e)
        return self._sum(per_actuator.expand_as(self.mean))

    def _sum(self, per_actuator: torch.Tensor) -> torch.Tensor:
        return per_actuator.masked_fill(self.action_padding_mask, 0.0).sum(dim=(1, 2))
