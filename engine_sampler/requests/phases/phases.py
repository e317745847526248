"""`Phases`: where a request is in its automaton, in a few integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.errors import PluginFault
from ..history import UNBOUNDED
from ..slots import CheckTrigger
from .automaton import Automaton, PhaseState
from .markers import Match
from .symbols import MAX_UNFINISHED

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_CHANGES = 1 << 10
"""How often a request may come into another phase, or have text forced."""

MAX_RULE_CHANGES = 1 << 12
"""How often it may come into a part of its grammar in which other parameters hold."""

DEAR_CHANGES, TOKENS_PER_DEAR = 64, 16
"""How often it may do so if that costs work in proportion to its history: so often, and once more for every
so many tokens of output."""

LEAST_DEAR, LIGHT_HISTORIES = 4, 1 << 20
"""Where its history and those of its siblings have more than so many tokens together, it may do so the fewer
times the more there are, but so often in any case."""

TakesBegin = Callable[[int, np.ndarray], bool]
"""The number of a phase and the tokens with which it would begin → whether its grammar takes them."""


class PhaseEntry(NamedTuple):
    """A phase, or the text that is forced at its end, in a log. `since`, `begin` and `counted` are lengths of
    the history.

    number    the number of the phase.
    since     when it was entered, or when its rule has changed.
    begin     where its tokens begin, which may be before that: with a marker.
    counted   where those begin that `Phase.tokens` counts, and in which its markers lie.
    is_forced  whether the end of the phase is being forced, token by token from `begin` on.
    rule      the number, from 1, of the parameters that rules of the grammar give; 0 for none.
    """

    number: int
    since: int
    begin: int
    counted: int
    is_forced: bool = False
    rule: int = 0

    def continues(self, other: PhaseEntry) -> bool:
        """Whether only the rule is another one than in the entry before."""
        return self.rule != other.rule and self._replace(rule=0, since=0) == other._replace(rule=0, since=0)


class Phases:
    """The phases that a request has gone through, which its tokens determine.

    automaton  shared by forks.
    log        the phases so far, the last of them the present one. Replaced, never changed in place.
    forced     the tokens that are being put at the end of the present phase; () if none are.
    is_constrained  whether the request has a grammar. One that begins with the answer goes on to its end: a
                marker is looked for only before it.
    is_closing  whether the token that comes next has taken the place of an EOS token.
    siblings  how many requests share the budget of changes.
    """

    siblings = 1

    def __init__(self, automaton: Automaton, prompt: np.ndarray) -> None:
        self.automaton = automaton
        self.is_constrained = self.is_closing = False
        self.forced: tuple[int, ...] = ()
        length = len(prompt)
        opening = automaton.opening_of(prompt)
        if opening is not None and automaton.plan.opened is not None:
            self.log: tuple[PhaseEntry, ...] = (PhaseEntry(automaton.plan.opened, length, length, opening),)
        else:
            is_marked = automaton.plan.opened is not None  # a marker may begin in the prompt
            self.log = (PhaseEntry(0, length, length, 0 if is_marked else length),)
        self._ended: dict[str, int] = {}
        """The tokens of the phases that have ended, by name. Replaced, never changed in place."""
        self._dear = self._within = 0
        """How many changes so far have cost work in proportion to the history, and how many are only of
        rules."""
        self._prompt_length = length
        self._heed_count(prompt)

    # --- facts -----------------------------------------------------------------------------------

    @property
    def state(self) -> PhaseState:
        """The present phase."""
        return self.state_of(self.log[-1])

    def state_of(self, entry: PhaseEntry) -> PhaseState:
        """The phase of an entry of the log."""
        automaton = self.automaton
        states = automaton.within[entry.rule - 1] if entry.rule else automaton.states
        return states[entry.number]

    @property
    def steers(self) -> bool:
        """Whether the next token may be another one than the drawn."""
        return self.log[-1].is_forced or self.state.phase.closes

    @property
    def begin(self) -> int:
        """The length of the history at which the output of the present phase's samplers begins."""
        entry = self.log[-1]
        return entry.begin if self.state.phase.is_output and not entry.is_forced else self._prompt_length

    @property
    def grammar_begin(self) -> int | None:
        """The length of the history at which the grammar begins; None where none holds."""
        begin = None
        for entry in reversed(self.log):
            if not self.automaton.states[entry.number].phase.has_grammar:
                break
            begin = entry.begin
        return begin

    def trigger(self, other: CheckTrigger) -> CheckTrigger:
        """When `follow` must be called, or `other` says so."""
        entry, phase = self.log[-1], self.state.phase
        if entry.is_forced:
            return replace(other, length=min(other.length, entry.begin + len(self.forced)))
        limit = UNBOUNDED if phase.tokens is None else entry.counted + phase.tokens
        always = bool(self.automaton.within) and self.is_constrained and phase.has_grammar
        watched = self.state.markers.watched_with(other.token_ids)
        return CheckTrigger(watched, min(other.length, limit), always or other.always)

    def counts(self, length: int) -> dict[str, int]:
        """How many tokens of the output each phase has had so far, by name, in a history of this length."""
        entry, name = self.log[-1], self.state.phase.name
        return {**self._ended, name: self._ended.get(name, 0) + length - entry.begin}

    def left_to_force(self, length: int) -> tuple[int, ...]:
        """The forced tokens that are still to come after a history of this length."""
        entry = self.log[-1]
        return self.forced[length - entry.begin :] if entry.is_forced else ()

    # --- changes ---------------------------------------------------------------------------------

    def steer(self, drawn: int, tokens: np.ndarray) -> int | None:
        """The token that follows `tokens` in place of the drawn one; None if that stays. Asked where it
        `steers`."""
        if not (self.forced or drawn in self.automaton.eos_token_ids):
            return None
        entry = self.log[-1]
        if entry.is_forced:
            return self.forced[len(tokens) - entry.begin]
        self.is_closing = True
        return self.state.forced(tokens, entry.counted)[0]

    def follow(self, tokens: np.ndarray, takes_begin: TakesBegin) -> bool:
        """Heed the last of `tokens`, which are the whole history; returns whether anything has changed."""
        before, length = self.log, len(tokens)
        entry = self.log[-1]
        if entry.is_forced:
            if length - entry.begin >= len(self.forced):
                self._enter(self.state.phase.then, length, length)
        elif self.is_closing:
            self._force(tokens[:-1], length)
        else:
            self._heed_markers(tokens, takes_begin)
        self.is_closing = False
        self._heed_count(tokens)
        if self.log is not before:
            self._check_changes(length - self._prompt_length)
        return self.log is not before

    def heed_rule(self, number: int, length: int) -> bool:
        """Where the text under the grammar is after a history of this length: in a part in which the
        parameters of this number hold. Returns whether that is new."""
        entry = self.log[-1]
        if entry.is_forced or not self.state.phase.has_grammar or entry.rule == number:
            return False
        self._append(entry._replace(since=length, rule=number))
        self._check_changes(length - self._prompt_length)
        return True

    def cut(self, tokens: np.ndarray) -> bool:
        """Go back to where the request was when its history was `tokens`; returns whether it was in another
        phase."""
        self.is_closing = False
        has_moved = self.log[-1].since > len(tokens)
        if has_moved:
            self.renew(tokens)
        return has_moved

    def renew(self, tokens: np.ndarray) -> None:
        """The same after a call that was interrupted, of which the log alone is whole; may be repeated."""
        self.is_closing = False
        first, *later = [entry for entry in self.log if entry.since <= len(tokens)]
        rebuilt = self.fork()
        rebuilt.log, rebuilt._ended, rebuilt._dear, rebuilt._within = (first,), {}, 0, 0
        for entry in later:
            rebuilt._append(entry)
        entry, self.forced = rebuilt.log[-1], ()
        if entry.is_forced:
            self.forced = self.state_of(entry).forced(tokens[: entry.begin], entry.counted)
        self._ended, self._dear, self._within = rebuilt._ended, rebuilt._dear, rebuilt._within
        self.log = rebuilt.log

    def fork(self) -> Self:
        """An independent copy."""
        child = object.__new__(type(self))
        child.automaton, child._prompt_length = self.automaton, self._prompt_length
        child.log, child.forced = self.log, self.forced
        child._ended, child._dear, child._within = self._ended, self._dear, self._within
        child.is_constrained, child.is_closing = self.is_constrained, self.is_closing
        child.siblings = self.siblings
        return child

    # --- inside ----------------------------------------------------------------------------------

    def _heed_markers(self, tokens: np.ndarray, takes_begin: TakesBegin) -> None:
        entry = self.log[-1]
        match = self.automaton.match(entry.number, tokens, entry.counted)
        if match is None or (self.is_constrained and not self._may_leave_grammar(match)):
            return
        end, length = self.state.phase.ends[match.number], len(tokens)
        if end.is_begin:
            if match.is_aligned and takes_begin(end.then, tokens[match.start :]):
                self._enter(end.then, length, match.start)
        else:
            is_start = self.automaton.plan.opened == end.then
            self._enter(end.then, length, max(match.start, entry.begin) if is_start else length)

    def _check_changes(self, output_length: int) -> None:
        """Raise `PluginFault` if there have been too many changes."""
        weight = max(1, self.siblings * (self._prompt_length + output_length) // LIGHT_HISTORIES)
        dear = max(LEAST_DEAR, (DEAR_CHANGES + output_length // TOKENS_PER_DEAR) // weight)
        if self._within > MAX_RULE_CHANGES:
            raise PluginFault(
                f"the grammar has changed the sampling parameters {MAX_RULE_CHANGES:,} times, the limit"
            )
        if len(self.log) - self._within > MAX_CHANGES:
            raise PluginFault(
                f"phases: the request has changed them {MAX_CHANGES:,} times, which is the limit"
            )
        if self._dear > dear:
            raise PluginFault(
                f"phases: the request has changed penalties and the like {dear} times in {output_length} "
                "tokens, which is the limit"
            )

    def _may_leave_grammar(self, match: Match) -> bool:
        """Whether a marker ends the present phase although a grammar may hold: only at the very beginning."""
        return not self.state.is_under_grammar or (self.may_open and match.start <= self._prompt_length)

    @property
    def may_open(self) -> bool:
        """Whether the request is where thoughts may precede everything else."""
        first, entry = self.log[0], self.log[-1]
        return first.number == 0 and entry._replace(rule=first.rule, since=first.since) == first

    def _heed_count(self, tokens: np.ndarray) -> None:
        """End the present phase if it has had its tokens, once its last character is whole."""
        entry, phase, length = self.log[-1], self.state.phase, len(tokens)
        if entry.is_forced or phase.tokens is None or length - entry.counted < phase.tokens:
            return
        if not phase.forced:
            self._enter(phase.then, length, length)
        elif length - entry.counted - phase.tokens >= MAX_UNFINISHED or not self.state.is_within_character(
            tokens[entry.counted :]
        ):
            self._force(tokens, length)

    def _enter(self, number: int, since: int, begin: int) -> None:
        self.forced = ()
        self._append(PhaseEntry(number, since, begin, since))

    def _force(self, tokens: np.ndarray, since: int) -> None:
        """Begin to force the end of the present phase after `tokens`."""
        entry = self.log[-1]
        self.forced = self.state.forced(tokens, entry.counted)
        self._append(PhaseEntry(entry.number, since, len(tokens), entry.counted, is_forced=True))
        if since - len(tokens) >= len(self.forced):
            self._enter(self.state.phase.then, since, since)

    def _append(self, entry: PhaseEntry) -> None:
        key, begin = self.state.history_key, self.begin
        self._within += entry.continues(self.log[-1])
        self._ended = self.counts(entry.begin)
        self.log = (*self.log, entry)
        self._dear += self.state.history_key != key or (bool(key) and self.begin != begin)
