"""What every sampler and selector does on a device, one file each."""

from __future__ import annotations

from typing import Any

from engine_sampler import Sampler, Selector
from engine_sampler.samplers.dist import Dist
from engine_sampler.samplers.greedy import Greedy
from engine_sampler.samplers.temperature import Temperature
from engine_sampler.samplers.top_k import TopK
from engine_sampler.samplers.top_p import TopP

from .base import Block, DeviceSelector, DeviceStep
from .dist import DistSelector
from .greedy import GreedySelector
from .temperature import TemperatureStep
from .top_k import TopKStep
from .top_p import TopPStep

__all__ = ["Block", "DeviceSelector", "DeviceStep", "selector_of", "step_of"]

_STEPS: dict[type[Sampler], DeviceStep] = {
    Temperature: TemperatureStep(),
    TopK: TopKStep(),
    TopP: TopPStep(),
}
_SELECTORS: dict[type[Selector], DeviceSelector] = {
    Dist: DistSelector(),
    Greedy: GreedySelector(),
}


def step_of(sampler: Sampler) -> DeviceStep | None:
    """The step of a built-in sampler, or what a third party's `torch_step()` returns; None if the sampler runs
    on the host only."""
    return _STEPS.get(type(sampler)) or _own(sampler, "torch_step")


def selector_of(selector: Selector) -> DeviceSelector | None:
    """The same for a selector, with `torch_selector()`."""
    return _SELECTORS.get(type(selector)) or _own(selector, "torch_selector")


def _own(part: Any, method: str) -> Any:
    make = getattr(part, method, None)
    return None if make is None else make()
