"""A method under a protocol of a suite: the rules and settings that it has before any change."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gmc_bench.methods.spec import MethodSpec
from gmc_bench.suites.method_rules import (
    tuned_settings,
    with_method_budget,
    with_method_training,
    with_task_decoder,
    with_tuned_settings,
)
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.schema import Suite

DEFAULT_PRESET = "default"
"""What stands for the preset of a method that has none."""


@dataclass(frozen=True)
class Choice:
    """Method, suite and protocol, for no task yet."""

    method_name: str
    method: MethodSpec
    suite: Suite
    protocol: Protocol

    @property
    def preset(self) -> str:
        """Preset of the method's settings."""
        return self.protocol.preset if self.method.presets else DEFAULT_PRESET

    @property
    def method_config(self) -> Any:
        """The method's settings before any change."""
        return self.method.make_config(None if self.preset == DEFAULT_PRESET else self.preset)

    def rules(self, task: str, num_train: int | None = None) -> Protocol:
        """Return the protocol of a run on a task, before any change.

        Args:
            task: full id.
            num_train: M, bodies to train on, where a method's budget depends on them; `None`
                leaves such a budget out.
        """
        protocol = self.suite.protocol(self.protocol.name, task)
        protocol = with_method_training(protocol, self.method, task, self.suite)
        protocol = replace(protocol, preset=self.protocol.preset)
        if num_train is None:
            return protocol
        return with_method_budget(protocol, self.method, self.suite, num_train)

    def settings(self, task: str) -> Any:
        """Return the method's settings on a task, before any change."""
        settings = with_task_decoder(self.method_config, self.method, self.suite, task)
        name = self.protocol.name
        if self.protocol.preset != self.suite.protocol(name).preset:
            return settings  # another variant of the network than the one that was tuned
        return with_tuned_settings(settings, self.method, self.suite, task, name)

    def tuned(self, task: str) -> Mapping[str, float]:
        """Return the method's tuned values on a task, by dotted name."""
        return tuned_settings(self.method, self.suite, task, self.protocol.name)

    @property
    def before_tuning(self) -> "Choice":
        """The same choice with the values that the protocol has for what was tuned."""
        return replace(self, method=self.method.before_tuning)
