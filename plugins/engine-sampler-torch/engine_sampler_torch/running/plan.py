"""A chain as the device runs it: as far as its parts have a torch form."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from engine_sampler import Chain, Truncation

from ..steps import DeviceSelector, DeviceStep, selector_of, step_of
from ..steps.selectors.dist import DistSelector


@dataclass(frozen=True)
class DevicePlan:
    """A chain, and what of it runs on a device.

    steps     the samplers up to the first that has no torch form.
    selector  None if it has none, or if the device does not get that far.
    """

    chain: Chain
    steps: tuple[DeviceStep, ...]
    selector: DeviceSelector | None

    @classmethod
    def of(cls, chain: Chain) -> DevicePlan:
        steps: list[DeviceStep] = []
        for sampler in chain.samplers:
            step = step_of(sampler)
            if step is None:
                return cls(chain, tuple(steps), None)
            steps.append(step)
        return cls(chain, tuple(steps), selector_of(chain.selector))

    @property
    def has_all_steps(self) -> bool:
        """Whether the device runs every sampler."""
        return len(self.steps) == len(self.chain.samplers)

    def is_worthwhile(self, masked: bool) -> bool:
        """Whether the device should begin: it chooses, or it cuts rows before the host takes over."""
        return self.selector is not None or masked or self._cuts

    @functools.cached_property
    def draws_ahead(self) -> bool:
        """Whether draws follow from logits, parameters, seed and position, all on the device."""
        selector = self.selector
        follows = selector is not None and (selector.parameters_only or isinstance(selector, DistSelector))
        return follows and self.has_all_steps and all(step.parameters_only for step in self.steps)

    @functools.cached_property
    def _cuts(self) -> bool:
        return any(isinstance(s, Truncation) for s in self.chain.samplers[: len(self.steps)])

    def name_of(self, step: int) -> str:
        """The name of sampler number `step`."""
        return self.chain.samplers[step].name
