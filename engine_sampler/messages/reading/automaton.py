"""`MessageAutomaton`: a definition as places and steps, found when they are needed and then remembered."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar

from ..alphabet import MarkerAlphabet
from ..definition import AnswerDefinition, character_class
from .following import Following
from .openers import OpenerIndex
from .places import FirstPlace, MessagePlace, MessageStep

if TYPE_CHECKING:
    from ...tokenizer import Tokenizer

V = TypeVar("V", bound=tuple[object, ...])

MAX_STEPS = 1_024
"""How many steps are remembered at most, with the places to which they lead some 900 bytes each; then all are
forgotten."""

PATIENCE = 256
"""After how many steps an automaton begins to remember them, unless it is asked for again before: most of
those that serve one answer need no memory."""

MAX_PIECE = 64
"""Maximum length of a text whose step is remembered."""


class MessageAutomaton:
    """What parsers with the same definition share.

    start  where an answer begins
    """

    def __init__(self, definition: AnswerDefinition, alphabet: MarkerAlphabet) -> None:
        self.definition, self.alphabet = definition, alphabet
        self.texts = alphabet.texts
        self.scans = definition.candidates(False), definition.candidates(True)
        first = OpenerIndex(definition.openers)
        later = [one for one in definition.openers if not one.only_first]
        self.openers = first if len(later) == len(definition.openers) else OpenerIndex(later), first
        self.section = OpenerIndex(definition.section)
        self.thinking_begins = OpenerIndex(definition.thinking_begins)
        self.thinking_ends = OpenerIndex(definition.thinking_ends)
        begins = (one.begin.first for one in definition.thinking_ends)
        self.thinking_first = character_class(frozenset().union(*begins))
        self._places: dict[Hashable, MessagePlace] = {}
        self._count = 0
        self._patience = PATIENCE
        self.start = self.known(FirstPlace(definition.starts_inside))

    def step(self, place: MessagePlace, text: str) -> MessageStep:
        """What a text does at a place."""
        return Following(self, place).advance(text)

    def last_step(self, place: MessagePlace) -> MessageStep:
        """What the end of the text does at a place."""
        return Following(self, place).finish()

    def known_step(self, place: MessagePlace, piece: int | str, text: str) -> MessageStep:
        """What a piece with this text does; it is remembered."""
        step = Following(self, place).advance(text)
        if self._patience:
            self._patience -= 1
        elif len(text) <= MAX_PIECE:
            if self._count >= MAX_STEPS:
                self._forget()
            place.steps[piece] = step
            self._count += 1
        return step

    def remember(self) -> None:
        """Begin to remember steps."""
        self._patience = 0

    def _forget(self) -> None:
        self._count, self._places = 0, {}
        self.start.steps.clear()
        self.known(self.start)

    def known(self, place: MessagePlace) -> MessagePlace:
        """The place that is remembered for this one."""
        key = None if self._patience else place.key()
        known = self._places.get(key)
        if known is None:
            self._prepare(place)
            if key is None:
                return place
            known = self._places[key] = place
        return known

    def _prepare(self, place: MessagePlace) -> None:
        """Find what comes next at a new place."""
        mode = place.mode
        place.steps, place.special, place.going_on = {}, None, "content"
        place.is_thinking = mode == "thoughts" or mode == "inside"
        if place.pending:
            return
        if mode == "arguments" and place.unnamed is None:
            assert place.reader is not None
            place.special, place.going_on = place.reader.special, "arguments"
        elif mode == "thoughts":
            place.special, place.going_on = self.thinking_first.search, "thought"
        elif mode == "free" and place.is_open:
            place.special = self.scans[0].search


MAX_SHARED = 32
"""How many automata are kept for a tokenizer: those that were asked for last."""

MAX_SIZE = 1 << 18
"""Maximum size of the arguments of one that is kept, in bytes."""


class SharedAutomata:
    """The automata of a tokenizer, by what they are made of. It takes no lock, which an interrupted call
    might leave held: each access to the dictionary is one operation."""

    def __init__(self) -> None:
        self._known: dict[Hashable, MessageAutomaton] = {}

    @staticmethod
    def of(tokenizer: Tokenizer | None) -> SharedAutomata:
        """Those for ids of a tokenizer, or those for text."""
        if tokenizer is None:
            return _FOR_TEXT
        shared: SharedAutomata = tokenizer.kept("automata of messages", SharedAutomata)
        return shared

    def find(
        self,
        options: Hashable,
        values: V,
        make: Callable[[V], MessageAutomaton],
    ) -> MessageAutomaton:
        """The automaton for some options and plain values, made of copies of the values."""
        try:
            data = marshal.dumps(values, 0)  # type: ignore[arg-type]
        except ValueError:  # values of other types, which might change
            return make(values)
        if len(data) > MAX_SIZE:
            return make(values)
        key = options, data
        known = self._known.pop(key, None)
        if known is not None:
            self._known[key] = known
            known.remember()
            return known
        # Two threads may make one each; the first that is there is kept.
        known = self._known.setdefault(key, make(marshal.loads(data)))
        for oldest in list(self._known)[:-MAX_SHARED]:
            self._known.pop(oldest, None)
        return known


_FOR_TEXT = SharedAutomata()
