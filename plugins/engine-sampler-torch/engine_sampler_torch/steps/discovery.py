"""The steps and selectors, by sampler and selector."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from engine_sampler.contract import Sampler, Selector
from engine_sampler.for_backends import default_registry, objects_in

from . import edits, selectors, transforms, truncations
from .base import DeviceSelector, DeviceStep

Part = TypeVar("Part", DeviceStep, DeviceSelector)


_ROOMS = (edits, truncations, transforms, selectors)


def step_of(sampler: Sampler) -> DeviceStep | None:
    """The step of a built-in sampler, or what a third party's `torch_step()` returns; None if the sampler
    runs on the host only."""
    return _own(sampler, "torch_step", _steps())


def selector_of(selector: Selector) -> DeviceSelector | None:
    """The same for a selector, with `torch_selector()`."""
    return _own(selector, "torch_selector", _selectors())


def _own(core: Sampler | Selector, method: str, built_in: Mapping[str, Any]) -> Any:
    make = getattr(core, method, None)
    if make is not None:
        return make()
    # A subclass of a built-in sampler may do something else, so it has none.
    return built_in.get(core.name) if default_registry().is_built_in(core) else None


@functools.cache
def _steps() -> Mapping[str, DeviceStep]:
    return _by_name(DeviceStep)


@functools.cache
def _selectors() -> Mapping[str, DeviceSelector]:
    return _by_name(DeviceSelector)


def _by_name(kind: type[Part]) -> Mapping[str, Part]:
    return {part.name: part for room in _ROOMS for part in objects_in(room.__name__, room.__path__, kind)}
