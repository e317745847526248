"""The hooks that a plugin may implement. Each receives a `register` function and calls it once per object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

PROJECT = "engine_sampler"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_samplers(register: Callable[[Any], None]) -> None:
    """Register `Sampler` and `Selector` objects."""


@hookspec
def register_stopping_criteria(register: Callable[[Any], None]) -> None:
    """Register `StoppingCriteria` objects."""


@hookspec
def register_backends(register: Callable[[Any], None]) -> None:
    """Register `Backend` objects."""


@hookspec
def register_grammars(register: Callable[[str, Any], None]) -> None:
    """Register grammars by name: `register(name, grammar)`."""


@hookspec
def register_observers(register: Callable[[Any], None]) -> None:
    """Register observers: objects with any of `request_added(request_id, params)`,
    `step_finished(result)`, `request_finished(record)`."""
