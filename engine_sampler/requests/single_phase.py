"""`SinglePhase`: the same parameters and the same grammar from the first token to the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..contract import Vocabulary
from ..params import SamplingParams, phases_of
from .constraint import Constraint
from .history import History
from .parts import faults_of
from .slots import CheckTrigger

if TYPE_CHECKING:
    from .phases import RequestPhases
    from .request import Request
    from .slots import Slots


class SinglePhase:
    """The phase of a request without phases, with the interface of `phases.RequestPhases`: the sampler states
    and the grammar of a request go back, are made anew and copied through it.

    given          the parameters of its chain that are not neutral.
    grammar_begin  the length of the history at which the grammar begins to hold.
    is_single      whether there is no other one; then `lead` need not be called.
    """

    is_single: Literal[True] = True
    steers = is_closing = False

    def __init__(self, given: Mapping[str, Any], grammar_begin: int) -> None:
        self.given = given
        self.grammar_begin = grammar_begin

    def open(self, request: Request) -> None:
        """The request has everything that it needs."""

    def lead(self, request: Request, slots: Slots | None, length: int | None = None) -> None:
        """No token leads into another phase."""

    def told(self, length: int) -> None:
        """The tokens of each phase: there are no phases."""

    def trigger(self, other: CheckTrigger) -> CheckTrigger:
        """When `follow` must be called, or `other` says so."""
        return other

    def left_to_force(self, length: int) -> tuple[int, ...]:
        """The forced tokens that are still to come."""
        return ()

    def steer(self, drawn: int, tokens: np.ndarray) -> None:
        """The drawn token stays."""

    def go_back(self, request: Request, slots: Slots, length: int) -> list[str]:
        """Bring the history of a request back to its first `length` tokens, and states and grammar with it.
        Returns why these cannot follow."""
        return states_and_grammar_back(request, slots, length)

    def rebuild(self, request: Request, slots: Slots) -> list[str]:
        """Make states and grammar anew from the history, after a call that was interrupted. Returns why these
        cannot follow."""
        length, faults = request.history.output_length, faults_of("the samplers", request.state.renew)
        slots.refill(request.slot)
        if request.grammar is not None:
            faults += faults_of("the grammar", request.grammar.rebuild, length)
        return faults

    def fork(self) -> SinglePhase:
        """What never changes can be shared."""
        return self


def states_and_grammar_back(request: Request, slots: Slots, length: int) -> list[str]:
    """Undo the tokens after the first `length` in the history of a request, in its states and in its grammar,
    none of which changes otherwise. Returns why these cannot follow."""
    n = len(request.history) - length
    faults = faults_of("the samplers", slots.rollback, request.slot, n)
    if request.grammar is not None:
        faults += faults_of("the grammar", request.grammar.rollback, n)
    return faults


def phases_for(
    params: SamplingParams, vocabulary: Vocabulary, history: History, constraint: Constraint | None
) -> SinglePhase | RequestPhases:
    """The phases of a request: those of its parameters, and the parts of its grammar with others."""
    plan, rules = phases_of(params), None if constraint is None else constraint.rules
    if plan is None and rules is None:
        return SinglePhase(params.given, history.prompt_length)
    from ..params.phases import plan_with_rules  # few requests need it
    from .phases import RequestPhases

    if rules is not None:
        plan = plan_with_rules(params, plan, rules.settings)
    assert plan is not None
    return RequestPhases.of(plan, vocabulary, history)
