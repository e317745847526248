"""The state of one live request: its history, and the states of its samplers and selector."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.calling import call_for_add, call_plugin
from ..base.errors import INTERRUPTIONS, PluginFault, quoted
from ..contract import Sampler, Selector, Vocabulary
from .history import History, Notes
from .later_output import LaterOutput


class RequestState:
    """One live request as its samplers and selector see it: its history, and their states by name.

    Lazy states are brought up to date with the history when they are read.
    """

    __slots__ = (
        "_broken",
        "_params",
        "_parts",
        "_seen",
        "_states",
        "chain",
        "eager",
        "history",
        "resolved",
        "row_states",
    )

    def __init__(self, chain: Any, history: History | LaterOutput) -> None:
        self.chain = chain
        self.history = history
        self.resolved: dict[str, Any] = {}
        self.row_states: dict[str, int] = {}
        """The addresses of the states that C functions of samplers read, by the samplers' names."""
        self.eager: tuple[Sampler | Selector, ...] = ()
        """The selector and the samplers whose states follow every token at once."""
        self._parts = {part.name: part for part in (chain.selector, *chain.samplers)}
        """A sampler that runs twice has one state."""
        self._params: Mapping[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._seen: dict[str, int] = {}
        """How many output tokens each lazy state has seen."""
        self._broken: dict[str, BaseException] = {}
        """Why a lazy state can no longer follow."""

    def open(
        self,
        params: Mapping[str, Any],
        vocabulary: Vocabulary,
        resolved: dict[str, Any] | None = None,
    ) -> None:
        """Create the states of all samplers, and bring them up to the history; raises `ParameterError`.

        resolved  the data of the samplers, by name; None: it is resolved now.
        """
        self._params = params
        prompt, output = self.history.prompt_token_ids[:], self.history.output_token_ids.tolist()
        self.resolved = {} if resolved is None else resolved
        for sampler in () if resolved is not None else self.chain.samplers:
            self.resolved[sampler.name] = call_for_add(sampler.name, sampler.resolve, params, vocabulary)
        for part in self.parts():
            state = call_for_add(part.name, part.new_state, params, prompt)
            self._states[part.name] = state
            if state is None:
                continue
            if part.lazy:
                self._seen[part.name] = 0
            else:
                self.eager = (*self.eager, part)
                if output:
                    call_for_add(part.name, _accept, part, state, output, self.history.output_notes)
        for sampler in self._in_c():
            self.row_states[sampler.name] = call_for_add(sampler.name, self._row_state, sampler)

    def parts(self) -> Iterable[Sampler | Selector]:
        """The selector and the samplers, each once."""
        return self._parts.values()

    @property
    def states(self) -> dict[str, Any]:
        """All states by name, up to date."""
        return {name: self.state(name) for name in self._states}

    def state(self, name: str) -> Any:
        """The state of one sampler or of the selector, up to date; raises what it raises when it cannot
        follow."""
        if name in self._broken:
            raise self._broken[name]
        seen = self._seen.get(name)
        if seen is not None and seen < self.history.output_length:
            self._catch_up(name, seen)
        return self._states.get(name)

    def state_after(self, name: str, token_ids: Sequence[int], before: Any = None) -> Any:
        """A copy of one sampler's state, or of its state `before`, that has followed more tokens; raises what
        the sampler raises."""
        state, part = self.state(name) if before is None else before, self._parts[name]
        if state is None:
            return None
        after = call_plugin(name, part.fork, state)
        _accept(part, after, token_ids, ())
        return after

    def accept(self, token_ids: Sequence[int], notes: Notes = ()) -> None:
        """Add tokens to the history and to every state; `notes` are the selector's."""
        self.history.accept(token_ids, notes)
        self.follow(token_ids, notes)

    def follow(self, token_ids: Sequence[int], notes: Notes = ()) -> None:
        """Bring the eager states up to tokens that are already in the history; raises `PluginFault`."""
        for part in self.eager:
            call_plugin(part.name, _accept, part, self._states[part.name], token_ids, notes)

    def rollback(self, n: int) -> None:
        """Undo the last `n` output tokens everywhere; raises `PluginFault` after all parts have been
        rolled back."""
        self.history.rollback(n)
        length, fault = self.history.output_length, None
        ahead = [(part, n) for part in self.eager]
        for part in self.parts():
            seen = self._seen.get(part.name, 0)
            if seen > length:
                ahead.append((part, seen - length))
                self._seen[part.name] = length
        for part, tokens in ahead:
            try:
                call_plugin(part.name, part.rollback, self._states[part.name], tokens)
            except PluginFault as error:
                fault = error
        if fault is not None:
            raise fault

    def renew(self) -> None:
        """Make all states anew from the tokens, since one of them may have been changed by halves; raises
        `PluginFault`."""
        self._broken.clear()
        for part in self.parts():
            if self._states[part.name] is None:
                continue
            state = call_plugin(part.name, part.new_state, self._params, self.history.prompt_token_ids[:])
            self._states[part.name] = state
            if part.lazy:
                self._seen[part.name] = 0
            elif output := self.history.output_token_ids.tolist():
                call_plugin(part.name, _accept, part, state, output, self.history.output_notes)
        for sampler in self._in_c():
            self.row_states[sampler.name] = call_plugin(sampler.name, self._row_state, sampler)

    def fork(self) -> RequestState:
        """An independent copy; raises `PluginFault`."""
        child = RequestState(self.chain, self.history.fork())
        child.resolved, child.eager, child._params = self.resolved, self.eager, self._params
        child._seen, child._broken = self._seen.copy(), self._broken.copy()
        for part in self.parts():
            state = self._states[part.name]
            child._states[part.name] = None if state is None else call_plugin(part.name, part.fork, state)
        for sampler in child._in_c():
            child.row_states[sampler.name] = call_plugin(sampler.name, child._row_state, sampler)
        return child

    def _in_c(self) -> Iterable[Sampler]:
        """The samplers that have a C function, which reads their states."""
        return (s for s in self.chain.samplers if s.row_function is not None and not s.lazy)

    def _row_state(self, sampler: Sampler) -> int:
        address = operator.index(sampler.row_state(self._states[sampler.name]))
        if not 0 <= address <= sys.maxsize * 2 + 1:
            raise ValueError(f"row_state gave {quoted(address)}, allowed is an address")
        return address

    def _catch_up(self, name: str, seen: int) -> None:
        part, token_ids = self._parts[name], self.history.output_token_ids[seen:].tolist()
        notes = self.history.output_notes[seen:] if isinstance(part, Selector) else ()
        try:
            _accept(part, self._states[name], token_ids, notes)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._broken[name] = error
            raise
        self._seen[name] = seen + len(token_ids)


def _accept(part: Sampler | Selector, state: Any, token_ids: Sequence[int], notes: Notes) -> None:
    if isinstance(part, Selector):
        noted = [None if note is None or note != note else float(note) for note in notes]
        part.accept(state, token_ids, noted or [None] * len(token_ids))
    else:
        part.accept(state, token_ids)
