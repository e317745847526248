"""The hooks that a plugin may implement. Each receives a `register` function and calls it once per object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

PROJECT = "engine_sampler"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function, or the method of an object, that implements one of the hooks below."""


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
def register_constraints(register: Callable[[Any], None]) -> None:
    """Register `ConstraintReader` objects: engines for grammars."""


@hookspec
def register_drafters(register: Callable[[Any], None]) -> None:
    """Register `Drafter` objects."""


@hookspec
def register_observers(register: Callable[[Any], None]) -> None:
    """Register observers: objects with any of these methods, each called where the event happens.

    request_added(request_id, params)      a request has joined.
    first_token(request_id)                its output has its first token.
    request_suspended(request_id)          `Scheduler.suspend` has taken a request out of the steps.
    request_resumed(request_id)            `Scheduler.resume` has taken it back.
    step_finished(result)                  a copy of the `StepResult`.
    step_measured(measures)                `StepMeasures` of the same step: times, rows, drafts, faults.
    request_finished(record)               the `Record` of a request that has ended.
    grammar_compiled(measures)             `GrammarMeasures`: a request's grammar is compiled, or cannot be.
    rows_on_host(backend, rows, reason)    once a step for each reason: `rows` rows ran on the host: a backend
                                           has "declined" them, their chain is "unsupported", or it is "lost".
                                           Rows that end with an error are not among them.

    Ids of requests are those of one scheduler. A method with a parameter `scheduler`, or with `**kwargs`, is
    also told whose event it is, by name: `request_added(request_id, params, scheduler)`. The name is that of
    `Scheduler(name=…)`, "" for what no scheduler has asked for.

    An observer that fails is logged, and changes nothing. What none of them watches is not measured.
    """
