"""A chain as the device runs it: as far as its parts have a torch form."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from engine_sampler.contract import Chain, Truncation

from ..steps import DeviceSelector, DeviceStep, selector_of, step_of

MOST_SEARCHED = 1 << 14
"""For rows of drafts, histories of this many tokens in all are searched for repetitions: that takes about as
long as to draw the rows one after the other."""


@dataclass(frozen=True)
class DevicePlan:
    """A chain, and the part of it that runs on a device.

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
        """Whether draws follow from logits, masks, parameters, seed and position, all on the device."""
        return self._chooses_ahead and all(s.parameters_only or s.positions_only for s in self.steps)

    def follows_drafts(self, tokens: int) -> bool:
        """The same with drafts in the histories, whose lengths are those of all rows together."""
        return self._follows_drafts and (not self._searches or tokens <= MOST_SEARCHED)

    @functools.cached_property
    def _chooses_ahead(self) -> bool:
        selector = self.selector
        if selector is None:  # a chain of edits alone, for logprobs, or one that ends on the host
            return False
        return self.has_all_steps and (selector.parameters_only or selector.positions_only)

    @functools.cached_property
    def _follows_drafts(self) -> bool:
        return self._chooses_ahead and all(
            s.parameters_only or s.positions_only or s.histories_only for s in self.steps
        )

    @functools.cached_property
    def _searches(self) -> bool:
        return any(step.searches for step in self.steps)

    @functools.cached_property
    def _cuts(self) -> bool:
        return any(isinstance(s, Truncation) for s in self.chain.samplers[: len(self.steps)])

    def name_of(self, step: int) -> str:
        """The name of sampler number `step`."""
        return self.chain.samplers[step].name
