"""The phases of a request, resolved for one vocabulary; forks share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ... import samplers
from ...base.calling import call_for_add
from ...contract import Chain, ParameterError, Sampler, Selector, Vocabulary
from ...contract.values import Phrase
from ...params import SamplingParams, build_chain
from ...params.phases import Phase, PhasePlan
from ...registry.phase_params import MAX_FORCED
from .markers import Marker, Markers, Match, resolve_marker
from .symbols import MAX_UNFINISHED, SymbolTable, is_unfinished

T = TypeVar("T")


class PhaseState:
    """One phase of an automaton, resolved.

    phase     as the parameters describe it.
    chain     its chain; `resolved` is the data of the samplers, by name.
    markers   those that end it.
    history_key  what the tables that are made of the history depend on; () if none are.
    is_under_grammar  whether a grammar begins with it, which has not held before.
    """

    def __init__(
        self,
        parameter: str,
        phase: Phase,
        vocabulary: Vocabulary,
        is_thinking: bool,
        shared: dict[Any, Any],
    ) -> None:
        self.phase = phase
        self.is_under_grammar = False
        self.chain: Chain = build_chain(phase.params)
        self.resolved: dict[str, Any] = {}
        for sampler in self.chain.samplers:
            resolve = partial(call_for_add, sampler.name, sampler.resolve, phase.params, vocabulary)
            key = sampler.name, _values_for(sampler, phase.params)
            self.resolved[sampler.name] = _made_once(shared, key, resolve)
        counting = [sampler for sampler in self.chain.samplers if sampler.cost == "history"]
        parts: list[Sampler | Selector] = [self.chain.selector, *counting]
        self.history_key = tuple(
            (part.name, *(phase.params[param.name] for param in part.params)) for part in parts if part.params
        )
        self._parameter = parameter
        self._tokenizer = vocabulary.tokenizer
        markers = partial(_markers, shared, parameter, vocabulary, is_thinking)
        self.markers = markers(tuple(end.marker for end in phase.ends))
        self._completed = markers(phase.completed)
        self._closing, forced = (
            _made_once(shared, (_ENCODED, phrases), partial(self._encoded, phrases, vocabulary))
            for phrases in (phase.closing, phase.forced)
        )
        self._forced = forced + self._closing
        if len(self._forced) > MAX_FORCED:
            raise ParameterError(
                f"{parameter} forces {len(self._forced)} tokens, which is not allowed: at most {MAX_FORCED}"
            )

    def _encoded(self, phrases: Iterable[Phrase], vocabulary: Vocabulary) -> tuple[int, ...]:
        """The phrases as token ids."""
        ids: tuple[int, ...] = ()
        for phrase in phrases:
            if isinstance(phrase, str):
                table = SymbolTable.of(vocabulary.need_tokenizer(self._parameter))
                phrase = table.single(phrase)[:1] or table.encode(self._parameter, table.parse(phrase))
            ids += phrase
        vocabulary.check_ids(self._parameter, ids)
        return ids

    def marker_ids(self, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
        """The markers that end the phase as token ids, those that are texts in one division."""
        return [self._encoded([end.marker], vocabulary) for end in self.phase.ends]

    def forced(self, tokens: np.ndarray, begin: int) -> tuple[int, ...]:
        """What is put after `tokens`, of which those from `begin` on belong to the phase, to end it."""
        found = self._completed.beginning(tokens, begin)
        return self._forced if found is None else (*self._rest_of(*found), *self._closing)

    def _rest_of(self, marker: Marker, count: int) -> tuple[int, ...]:
        if marker.ids or self._tokenizer is None:
            return marker.ids[count:]
        return SymbolTable.of(self._tokenizer).encode(self._parameter, marker.symbols[count:])

    def is_within_character(self, tokens: np.ndarray) -> bool:
        """Whether a character has begun in `tokens` and not ended, as far as the tokenizer tells."""
        if self._tokenizer is None:
            return False
        table = SymbolTable.of(self._tokenizer)
        return is_unfinished("".join(map(table.symbols, tokens[-MAX_UNFINISHED:].tolist())))


class Automaton:
    """The phases of a request.

    plan          as the parameters describe it.
    states        the phases, resolved.
    within        for each set of parameters that rules of the grammar give, the phases under these.
    eos_token_ids  those of the vocabulary.
    recounts      whether a change of phase may cost work in proportion to the history.

    Raises `ParameterError` for what the vocabulary does not allow.
    """

    def __init__(self, plan: PhasePlan, vocabulary: Vocabulary) -> None:
        self.plan = plan
        self.vocabulary = vocabulary
        is_thinking = plan.opened is not None
        parameter = "thinking" if is_thinking else "phases"
        shared: dict[Any, Any] = {}
        """What phases share, so that many phases cost little more than one: the data of samplers, the
        markers, and forced texts as tokens."""
        self.states, *self.within = (
            [PhaseState(parameter, phase, vocabulary, is_thinking, shared) for phase in phases]
            for phases in (plan.phases, *plan.within)
        )
        if not all(phase.has_grammar for phase in plan.phases):
            for states in (self.states, *self.within):
                for state in states:
                    state.is_under_grammar = state.phase.has_grammar
        self.eos_token_ids = frozenset(vocabulary.eos_token_ids)
        every = [state for states in (self.states, *self.within) for state in states]
        moves = any(state.history_key and state.phase.is_output for state in every)
        self.recounts = moves or len({state.history_key for state in every}) > 1

    def rule_params(self) -> list[SamplingParams]:
        """The parameters that hold where rules of the grammar give some."""
        return [state.phase.params for states in self.within for state in states]

    def opening_of(self, prompt: np.ndarray) -> int | None:
        """Where the phase that the prompt has opened begins in it; None if it has not opened one."""
        plan = self.plan
        if plan.opened is None or plan.inside is False:
            return None
        opener = self.states[0].markers.latest(prompt)
        if opener and opener > self.states[plan.opened].markers.latest(prompt):
            return opener
        return len(prompt) if plan.inside is True else None

    def openings(self) -> list[tuple[int, ...]]:
        """The markers with which a text under a grammar may begin, as token ids; [] if none may."""
        first = self.states[0]
        return first.marker_ids(self.vocabulary) if first.is_under_grammar else []

    def match(self, number: int, tokens: np.ndarray, begin: int) -> Match | None:
        """The marker that ends a phase with the last of `tokens`."""
        return self.states[number].markers.match(tokens, begin)


def _values_for(sampler: Sampler, params: SamplingParams) -> Any:
    """What the data of a sampler depends on: for a built-in one its own parameters, and what stops."""
    if type(sampler).__module__.startswith(samplers.__name__):
        own = (params[param.name] for param in sampler.params)
        return (*own, params["stop_token_ids"], params["stop"])
    return params


_ENCODED, _MARKERS = object(), object()
"""What is shared besides the data of samplers."""


def _made_once(shared: dict[Any, Any], key: Any, make: Callable[[], T]) -> T:
    if key not in shared:
        shared[key] = make()
    found: T = shared[key]
    return found


def _markers(
    shared: dict[Any, Any],
    parameter: str,
    vocabulary: Vocabulary,
    prefers_token: bool,
    phrases: tuple[Phrase, ...],
) -> Markers:
    def resolved() -> Markers:
        found = [
            marker
            for number, phrase in enumerate(phrases)
            for marker in resolve_marker(parameter, number, phrase, vocabulary, prefers_token)
        ]
        return Markers(found, vocabulary)

    return _made_once(shared, (_MARKERS, phrases), resolved)
