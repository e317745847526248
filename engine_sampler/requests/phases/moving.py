"""A request comes into another phase: its chain, grammar, text and stop checks change together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...base.calling import call_plugin
from ...base.errors import ParameterError, PluginFault
from ...contract import Work
from ...contract.work import REQUEST_WORK
from ...params.phases import PhasePlan
from ..history import History
from ..later_output import LaterOutput
from ..parts import faults_of
from ..single_phase import states_and_grammar_back
from ..state import RequestState
from .automaton import Automaton
from .opening import OpeningMatcher
from .phases import Phases

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...contract import Vocabulary
    from ...contract.constraints import RuleSettings
    from ..constraint import Constraint
    from ..request import Request
    from ..slots import Slots


class RequestPhases(Phases):
    """The phases of one request, which give it what belongs to each of them.

    rules  what the rules of its grammar set; None for nothing.
    """

    is_single: Literal[False] = False
    rules: RuleSettings | None = None

    @classmethod
    def of(cls, plan: PhasePlan, vocabulary: Vocabulary, history: History) -> RequestPhases:
        """The phases of a request with this prompt. Raises `ParameterError`."""
        return cls(Automaton(plan, vocabulary), history.prompt_token_ids)

    def open(self, request: Request) -> None:
        """Give the request, which has everything else and has accepted nothing, what belongs to its first
        phase."""
        grammar = request.constraint
        if grammar is not None:
            self.is_constrained, self.rules = True, grammar.rules
            if markers := self.automaton.openings():
                grammar.put_before(OpeningMatcher(grammar.matcher, markers))
            self._heed_rules(grammar, self._prompt_length)
        self.equip(request, None)

    @property
    def given(self) -> Mapping[str, Any]:
        """The parameters of the chain of the present phase that are not neutral."""
        return self.state.phase.params.given

    def told(self, length: int) -> dict[str, int] | None:
        """The tokens of each phase, see `counts`; None if only rules of a grammar set parameters."""
        return self.counts(length) if self.automaton.plan.is_given else None

    def fork(self) -> Self:
        """An independent copy."""
        child = super().fork()
        child.rules = self.rules
        return child

    def _heed_rules(self, grammar: Constraint | None, length: int) -> bool:
        """Heed where the text under a grammar is; returns whether other parameters hold than before."""
        if self.rules is None or grammar is None or not self.state.phase.has_grammar:
            return False
        number = call_plugin("the grammar", self.rules.present, grammar.matcher)
        return self.heed_rule(number, length)

    def lead(self, request: Request, slots: Slots | None, length: int | None = None) -> None:
        """Heed the newest token of the request. Raises what its parts raise that cannot follow.

        slots   where it has its slot; None if it has none.
        length  the length of its history up to that token; None: the whole.
        """
        if not request.live:
            return
        state, begin = self.state, self.begin
        tokens = request.history.token_ids[:length]
        has_changed = self.follow(tokens, _Beginning(request, self))
        has_changed |= self._heed_rules(request.constraint, len(tokens))
        if not has_changed:
            return
        request.has_moved = True
        if self.state is not state or self.begin != begin:
            keeps = self.state.history_key == state.history_key and self.begin == begin
            self.equip(request, slots, keeps_tables=keeps)
        elif slots is not None:
            slots.watch(request.slot, request.check_trigger())

    def equip(
        self, request: Request, slots: Slots | None, *, anew: bool = True, keeps_tables: bool = False
    ) -> None:
        """Give the request what belongs to its present phase. Raises `ParameterError` or `PluginFault`.

        anew          whether it comes there from an earlier phase.
        keeps_tables  whether tables that are made of its history hold for both.
        """
        state, phase, history = self.state, self.state.phase, request.history
        if request.constraint is not None:
            self._open_or_close(request.constraint, resets=anew and not phase.has_grammar)
        is_later = self.begin > history.prompt_length
        opened = RequestState(state.chain, LaterOutput(history, self.begin) if is_later else history)
        opened.open(phase.params, self.automaton.vocabulary, state.resolved)
        request.chain, request.state = state.chain, opened
        request.grammar = request.constraint if phase.has_grammar else None
        if request.grammar is not None:
            request.grammar.mask_ready = False
        checks = request.stop_checks
        checks.limit_to(self.begin - history.prompt_length, phase.has_stops)
        if request.text is not None:
            request.text.use(checks.text_matchers if phase.has_stops else (), anew=anew)
        if slots is not None:
            trigger = request.check_trigger()
            slots.replace(request.slot, opened, phase.params.given, trigger, keeps_tables=keeps_tables)

    def _open_or_close(self, grammar: Constraint, *, resets: bool) -> None:
        """Let thoughts begin only before everything else; what a grammar has accepted of their marker does
        not count if it `resets`."""
        if isinstance(grammar.matcher, OpeningMatcher):
            grammar.matcher.is_open = self.may_open
        if resets and grammar.accepted:
            call_plugin("the grammar", grammar.rollback, grammar.accepted)

    def go_back(self, request: Request, slots: Slots, length: int) -> list[str]:
        """Bring the history of a request back to its first `length` tokens, and states and grammar with it.
        Returns why these cannot follow."""
        had_begun = self.grammar_begin
        try:
            has_moved = self.cut(request.history.token_ids[:length])
        except PluginFault as fault:
            return [str(fault)]
        if not has_moved:
            return states_and_grammar_back(request, slots, length)
        slots.cut(request.slot, length)
        return self._equip_anew(request, slots, had_begun, interrupted=False)

    def rebuild(self, request: Request, slots: Slots) -> list[str]:
        """Make states and grammar anew from the history, after a call that was interrupted. Returns why these
        cannot follow."""
        had_begun = self.grammar_begin
        self.renew(request.history.token_ids)
        return self._equip_anew(request, slots, had_begun, interrupted=True)

    def _equip_anew(
        self, request: Request, slots: Slots, had_begun: int | None, *, interrupted: bool
    ) -> list[str]:
        """Give the request, whose history has been cut, what belongs to its present phase; returns why parts
        cannot follow.

        had_begun  where its grammar had begun before, see `grammar_begin`.
        """
        request.has_moved = True
        faults: list[str] = []
        try:
            self.equip(request, slots, anew=False)
        except (ParameterError, PluginFault) as fault:
            faults.append(str(fault))
        if request.constraint is not None:
            arguments = request, request.constraint, had_begun, interrupted
            faults += faults_of("the grammar", self._rewind, *arguments)
        return faults

    def _rewind(
        self, request: Request, grammar: Constraint, had_begun: int | None, interrupted: bool
    ) -> None:
        """Bring a grammar back to the tokens in which it holds."""
        begin, tokens = self.grammar_begin, request.history.token_ids
        left = [] if begin is None else tokens[begin:].tolist()
        kept = len(left) if begin == had_begun else 0
        if interrupted:
            grammar.rebuild(kept)
        else:
            grammar.rollback(grammar.accepted - kept)
        for token_id in left[kept:]:  # a part of a marker
            grammar.accept(token_id)


class _Beginning:
    """Gives the grammar of a request the tokens with which a phase would begin."""

    def __init__(self, request: Request, phases: Phases) -> None:
        self._request = request
        self._phases = phases

    def __call__(self, number: int, tokens: np.ndarray) -> bool:
        grammar, phase = self._request.constraint, self._phases.automaton.states[number].phase
        if grammar is None or self._request.grammar is not None or not phase.has_grammar:
            return True
        work = Work(REQUEST_WORK, REQUEST_WORK)
        for count, token_id in enumerate(tokens.tolist()):
            if not call_plugin("the grammar", grammar.accept, token_id, work):
                call_plugin("the grammar", grammar.rollback, count)
                return False
        return True
