"""What every sampler and selector does on a device, one file each; a new file is discovered automatically.

`infill` has none: which tokens it merges depends on their bytes and, one after the other, on what is left of
the tokens merged before.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from engine_sampler import Sampler, Selector, samplers
from engine_sampler.registry import objects_in

from .base import Block, DeviceSelector, DeviceStep, Given

__all__ = ["Block", "DeviceSelector", "DeviceStep", "Given", "selector_of", "step_of"]

Part = TypeVar("Part", DeviceStep, DeviceSelector)


def step_of(sampler: Sampler) -> DeviceStep | None:
    """The step of a built-in sampler, or what a third party's `torch_step()` returns; None if the sampler
    runs on the host only."""
    return _own(sampler, "torch_step", _parts(DeviceStep, Sampler))


def selector_of(selector: Selector) -> DeviceSelector | None:
    """The same for a selector, with `torch_selector()`."""
    return _own(selector, "torch_selector", _parts(DeviceSelector, Selector))


def _own(core: Any, method: str, parts: Mapping[type, Any]) -> Any:
    make = getattr(core, method, None)
    return parts.get(type(core)) if make is None else make()


@functools.cache
def _parts(kind: type[Part], core: type[Any]) -> Mapping[type, Part]:
    """The parts of one kind by the class of the built-in sampler or selector of the same name. A subclass may
    do something else, so it has none."""
    by_name = {part.name: part for part in objects_in(__name__, __path__, kind)}
    built_in = objects_in(samplers.__name__, samplers.__path__, core)
    return {type(part): by_name[part.name] for part in built_in if part.name in by_name}
