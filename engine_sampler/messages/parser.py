"""`MessageParser`: what an answer of a model consists of, while it is written."""

from __future__ import annotations

import codecs
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..base.arguments import not_allowed, one_of
from ..contract import AnswerParser
from ..grammar.engines.steps import Steps
from ..grammar.errors import GrammarError, GrammarLimitError
from ..grammar.grammar import Grammar
from ..params.families import check_reasoning
from ..tokenizer import Tokenizer, check_tokenizer
from .alphabet import MarkerAlphabet, without_surrogates
from .definition import stops_in
from .events import Event
from .given import automaton_of, custom_tools, thinking_marks
from .message import MessagePart
from .reading import (
    TRIMS,
    MessagePlace,
    MessageStep,
    Reading,
    ReadingOptions,
    joined,
)

if TYPE_CHECKING:
    from ..grammar.engines.captures import Captures

_EVERY = 64
"""After so many pieces of text, the state is kept: a rollback reads at most as many again."""

_Decoder = codecs.getincrementaldecoder("utf-8")


class MessageParser(AnswerParser):
    """Reads the answer of a model as it grows: thoughts, content, and calls of tools with their arguments.

    family          how the model writes them: a name in `TOOL_FAMILIES`; None: there are no calls, or
                    `structural_tag` says how they are written
    tools           the functions that may be called, in OpenAI's form, with the schemas that tell strings
                    from other values where a family does not; None: any
    tool_choice     "none": no call is a part of the message, nor is its markup, unless there are no tools:
                    then that is content
    reasoning       "auto": thoughts between their marks are read wherever they are; "enabled": the text
                    begins within them where the chat template opens them; "disabled": marks of thoughts
                    are content
    starts_inside   whether the text begins within thoughts; None: as `reasoning` says
    structural_tag  a structural tag that constrains the answer (`Grammar.from_structural_tag`)
    reasoning_marks  what begins and what ends thoughts, for a model without a family
    tokenizer       whose ids are fed; None: text is fed
    skip_special_tokens  whether special tokens that mark nothing have no text
    stop            strings at the first of which thoughts or content end, and with them what is read; within
                    arguments they have no effect. They are held back where they might begin; at most 32,768
                    bytes in all
    include_stop_str_in_output  whether the stop string is a part of what it ends
    calls_end_thoughts  whether a call that begins within thoughts ends them, or is a part of them; None: as
                    the family's models are served elsewhere
    unknown_tools   "call": a call of a function that is not one of `tools` is a call; "content": it is none
    malformed       what becomes of the text of a call that is not as defined, up to the next mark: "content",
                    without marks; "drop": it is reported as events of the kind "malformed"; "error":
                    `feed` or `finish` raises `MalformedCallError`. What was told of the call's arguments is
                    closed, so that it is JSON, and an event "call_broken" says so
    unfinished      a call that the end of the text cuts: "open": it has a part of its arguments; "close": the
                    shortest JSON completes them, without what is dangling: a key, of which up to 16,384
                    characters wait for a value, a comma, a part of an escape or of a number; "drop": it is
                    none, and a call is reported once it is whole
    values          whether arguments are reported by their parts as well (events of the kind "value"). Not
                    within those nested more than 256 levels deep, nor from a number of more than 16,384
                    characters on, or a pointer of more than 512: that is reported as a deviation
    trim            what is given without white space at its ends, which waits until something follows it:
                    "thoughts", and then content that follows them without line breaks at its beginning;
                    "all": content, too, which calls may interrupt; "nothing". Content under a `grammar` is
                    left as it is
    separate_reasoning  False: thoughts are content, between their marks, and nothing of them is trimmed
    prefix          what the answer begins with, a text or ids: the text goes on from there. Neither a
                    rollback nor the number of tokens counts it
    echo            whether what `prefix` says is given as well, by the first call of `feed` or `finish`; else
                    that is so for a call that it does not complete, of which a part would be of no use
    grammar         the one that the content is under: its captures are reported at the end
    call_id         what gives a call's id, from its index, its name, and the id that the text gives it or "".
                    None: the text's, or "call_" and digits that are random for each parser and fork; so it is
                    where it raises an exception or gives no string, which is reported as a deviation

    The definition of a family is the one by which `tool_calls` constrains its answers, read generously. White
    space is free around marks and in JSON, and members of objects come in any order. What a family's models
    write now and then is read as well. The answer need not be constrained: where it leaves its definition,
    that is reported, and what follows is read on from the next mark.

        parser = MessageParser("qwen_3", tools, tokenizer=tokenizer)
        for token_id in answer:
            send(chat_deltas(parser.feed([token_id])))
        parser.finish()
        message = chat_message(parser)

    Work is linear in the length of the text. Raises `ParameterError` for what is not allowed, schemas among
    it whose types take too many steps to find; GrammarError for what is not a structural tag, and
    GrammarLimitError for one that is too large.
    """

    def __init__(
        self,
        family: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        tool_choice: Any = "auto",
        reasoning: str = "auto",
        starts_inside: bool | None = None,
        structural_tag: Mapping[str, Any] | str | None = None,
        reasoning_marks: tuple[str, str] | None = None,
        tokenizer: Tokenizer | None = None,
        skip_special_tokens: bool = True,
        stop: Sequence[str] = (),
        include_stop_str_in_output: bool = False,
        calls_end_thoughts: bool | None = None,
        unknown_tools: Literal["call", "content"] = "call",
        malformed: Literal["content", "drop", "error"] = "content",
        unfinished: Literal["open", "close", "drop"] = "open",
        values: bool = False,
        trim: str = "thoughts",
        separate_reasoning: bool = True,
        prefix: str | Sequence[int] = "",
        echo: bool = False,
        grammar: Grammar | None = None,
        call_id: Callable[[int, str, str], str] | None = None,
    ) -> None:
        check_tokenizer(tokenizer)
        check_reasoning(reasoning)
        if grammar is not None and not isinstance(grammar, Grammar):
            raise not_allowed("grammar", grammar, "a Grammar")
        one_of(("call", "content"), "unknown_tools", unknown_tools)
        one_of(("content", "drop", "error"), "malformed", malformed)
        one_of(("open", "close", "drop"), "unfinished", unfinished)
        one_of(TRIMS, "trim", trim)
        marks = None
        if not separate_reasoning:
            trim, marks = "all" if trim == "all" else "nothing", thinking_marks(family, reasoning_marks)
        self._automaton = automaton_of(
            MarkerAlphabet(tokenizer, skip_special_tokens),
            stops_in(stop),
            (
                bool(include_stop_str_in_output),
                malformed == "drop",
                unknown_tools == "content",
                None if calls_end_thoughts is None else bool(calls_end_thoughts),
                marks is None,
            ),
            (family, tools, tool_choice, reasoning, starts_inside, structural_tag, reasoning_marks),
        )
        self._texts = self._automaton.texts
        self._takes_ids = tokenizer is not None
        self._includes_stop = include_stop_str_in_output
        self._grammar = grammar
        self._place = self._automaton.start
        hides = family is not None and tool_choice == "none"
        self._reading = Reading(
            ReadingOptions(
                values,
                call_id,
                "hide" if hides else unfinished,
                malformed == "error",
                trim,
                grammar is not None,
                marks,
                custom_tools(tools),
            )
        )
        self._decoder = _Decoder("replace")
        self._bytes_wait = self._is_finished = self._captures_wait = False
        self._thinking_tokens = 0
        self._log: list[int | str] = []
        self._first = self._begin_inside(prefix, echo) if prefix else []
        self._kept = [self._state()]

    # --- Feeding ---

    shared_steps = staticmethod(Steps)

    def feed(self, pieces: Iterable[int] | str) -> list[Event]:
        """The events of token ids, or of a piece of text; a rollback counts a piece of text as one token.

        Raises ValueError after `finish`, and `ParameterError` for text where a tokenizer is given, or for ids
        where none is; nothing has changed then.
        """
        if self._first:
            return self._with_first(self.feed, pieces)
        events: list[Event] = []
        is_whole = self._takes_ids and not self._bytes_wait and not self._is_finished
        if is_whole and type(pieces) is list and len(pieces) == 1 and self._feed_one(pieces[0], events):
            return events if len(events) < 2 else joined(events)
        if isinstance(pieces, str) is self.takes_ids:
            allowed = "ids, with a tokenizer" if self.takes_ids else "text, without a tokenizer"
            raise not_allowed("pieces", pieces, allowed)
        if self._is_finished:
            raise ValueError("the answer is finished")
        length = len(self._log)
        try:
            self._read((pieces,) if isinstance(pieces, str) else pieces, events)
        except BaseException:  # an interruption, or what is not an id: nothing of it has come
            self._return_to(length)
            raise
        return joined(events)

    def _begin_inside(self, prefix: str | Sequence[int], echo: bool) -> list[Event]:
        """Begin after a prefix; returns the events of what it says that are to be given."""
        events: list[Event] = []
        if isinstance(prefix, str):
            text = self._automaton.alphabet.marked(prefix)
            self._apply(self._automaton.step(self._place, text), events)
        elif not self._takes_ids:
            raise not_allowed("prefix", prefix, "text, without a tokenizer")
        else:
            for token_id in prefix:
                self._take(token_id, events)
        self._thinking_tokens = 0
        return joined(events) if echo else self._reading.begin_anew()

    def _with_first(self, feed: Callable[..., list[Event]], *pieces: Any, **options: Any) -> list[Event]:
        """The events of a prefix, which are given once, with those that follow."""
        first, self._first = self._first, []
        try:
            return joined(first + feed(*pieces, **options))
        except BaseException:  # nothing has been given
            self._first = first
            raise

    def _feed_one(self, piece: int, events: list[Event]) -> bool:
        """Take a token that is whole characters, as most are; else nothing has changed."""
        place = self._place
        special = place.special
        text = self._texts.get(piece) if special is not None else None
        if text and type(text) is str and special(text) is None:  # type: ignore[misc]
            self._reading.length += len(text)
            self._reading.go_on(place.going_on, text, events)
        else:
            step = place.steps.get(piece) or self._found(place, piece)
            if step is None:
                return False
            try:
                self._apply(step, events)
            except BaseException:  # an interruption
                self._return_to(len(self._log))
                raise
        if place.is_thinking:
            self._thinking_tokens += 1
        self._log.append(piece)
        if not len(self._log) % _EVERY:
            self._kept.append(self._state())
        return True

    def finish(self, *, steps: int | Steps | None = None) -> list[Event]:
        """The last events: what was held back, since it might have been the beginning of something, and the
        captures of the grammar.

        steps  the most steps in which these captures are found (`Grammar.captures`), which several parsers
               may share; where they take more, they come from another call. None: as many as
               there, and none come where they take more
        """
        if self._first:
            return self._with_first(self.finish, steps=steps)
        events: list[Event] = []
        if not self._is_finished:
            try:
                rest = self._decoder.decode(b"", final=True)
                if rest:
                    self._apply(self._automaton.step(self._place, rest), events)
                self._apply(self._automaton.last_step(self._place), events)
            except BaseException:  # an interruption, or a call that is not as defined
                self._return_to(len(self._log))
                raise
            events = joined(events)
            self._is_finished = True
            self._captures_wait = self._grammar is not None and bool(self._grammar.program.captures)
        if self._captures_wait:
            captures, self._captures_wait = self._captures(steps)
            named = [(name, one) for name, some in (captures or {}).items() for one in some]
            named.reverse()  # for those with one text, inner ones first
            named.sort(key=lambda one: (one[1].end, -one[1].start))
            events += (Event("capture", one.text, id=name) for name, one in named)
        return events

    def leaves_out(self, token_id: int, stop_reason: Any) -> bool:
        """Whether the last token of an answer that has ended for a reason is none of its text: one of
        `stop_token_ids` that marks nothing."""
        if type(stop_reason) is not int or stop_reason != token_id or self._includes_stop:
            return False
        text = self._text_of(token_id)
        return isinstance(text, bytes) or not self._automaton.alphabet.is_marker(text)

    def _read(self, pieces: Iterable[int | str], events: list[Event]) -> None:
        """Take pieces; those that are no more than text that goes on together, which is most of them."""
        log, known = self._log, self._texts
        run: list[str] = []
        special = self._place.special
        for piece in pieces:
            text = piece if isinstance(piece, str) else known.get(piece)
            if special is not None and type(text) is str and special(text) is None and not self._bytes_wait:
                run.append(text)
            else:
                if run:
                    self._go_on(run, events)
                    run = []
                self._take(piece, events)
                special = self._place.special
            log.append(piece)
            if not len(log) % _EVERY:
                if run:
                    self._go_on(run, events)
                    run = []
                self._kept.append(self._state())
        if run:
            self._go_on(run, events)

    def _go_on(self, run: list[str], events: list[Event]) -> None:
        place = self._place
        if place.is_thinking:
            self._thinking_tokens += len(run)
        text = run[0] if len(run) == 1 else "".join(run)
        if text:
            self._reading.length += len(text)
            self._reading.go_on(place.going_on, text, events)

    def _take(self, piece: int | str, events: list[Event]) -> None:
        """Take one piece of any kind."""
        place = self._place
        step = None if self._bytes_wait else place.steps.get(piece) or self._found(place, piece)
        if step is None:
            text = self._decoded(piece if isinstance(piece, str) else self._text_of(piece))
            step = self._automaton.step(place, text)
        self._apply(step, events)
        self._thinking_tokens += place.is_thinking

    def _found(self, place: MessagePlace, piece: int | str) -> MessageStep | None:
        """What a piece does that has not been met here; None for bytes that are not whole characters."""
        text = without_surrogates(piece) if isinstance(piece, str) else self._text_of(piece)
        return None if isinstance(text, bytes) else self._automaton.known_step(place, piece, text)

    def _text_of(self, token_id: int) -> str | bytes:
        text = self._texts.get(token_id)
        return self._automaton.alphabet.token(token_id, self._texts) if text is None else text

    def _apply(self, step: MessageStep, events: list[Event]) -> None:
        self._place, length, kind, text, facts = step
        if kind is not None:
            self._reading.go_on(kind, text, events)
        elif facts:
            self._reading.apply(facts, events)
        self._reading.length += length

    def _decoded(self, piece: str | bytes) -> str:
        """A piece after bytes that were not whole characters."""
        is_marker = isinstance(piece, str) and self._automaton.alphabet.is_marker(piece)
        if is_marker:
            before, self._bytes_wait = self._decoder.decode(b"", final=True), False
            self._decoder.reset()
            return before + str(piece)
        text = self._decoder.decode(piece if isinstance(piece, bytes) else piece.encode())
        self._bytes_wait = bool(self._decoder.getstate()[0])
        return text

    # --- Going back ---

    def _state(self) -> tuple[Any, ...]:
        decoder = self._decoder.getstate()
        return self._place, self._reading.state(), decoder, self._bytes_wait, self._thinking_tokens

    def rollback(self, n: int) -> None:
        """Take back the last `n` tokens, or pieces of text: the parser is then as if they had not come.

        Events that were given are not taken back. Raises ValueError if there are fewer.
        """
        if not 0 <= n <= len(self._log):
            raise ValueError(f"n={n} is not allowed: 0 to {len(self._log)}")
        if not n and not self._is_finished:
            return
        self._return_to(len(self._log) - n)

    def _return_to(self, left: int) -> None:
        """Keep so many tokens, or pieces of text."""
        del self._kept[left // _EVERY + 1 :]
        self._place, reading, decoder, self._bytes_wait, self._thinking_tokens = self._kept[-1]
        self._reading.restore(reading)
        self._decoder.setstate(decoder)
        self._is_finished = False
        first = (len(self._kept) - 1) * _EVERY
        again = self._log[first:left]
        del self._log[first:]
        self._read(again, [])

    def fork(self) -> MessageParser:
        """A parser in the same state, which goes on independently."""
        new = object.__new__(MessageParser)
        new.__dict__.update(self.__dict__)
        new._reading = self._reading.fork()
        new._decoder = _Decoder("replace")
        new._decoder.setstate(self._decoder.getstate())
        new._log, new._kept = self._log.copy(), self._kept.copy()
        return new

    # --- What has been read ---

    @property
    def parts(self) -> Sequence[MessagePart]:
        """What has been read so far: thoughts, content and calls, in the order of the text."""
        return self._reading.shown

    @property
    def captures(self) -> Captures | None:
        """What the rules of the grammar with the attribute `capture` match in the content so far, with places
        in its UTF-8 (`Grammar.captures`); {} without a grammar. None for content that is not the beginning of
        a text under it, or for which this takes too many steps."""
        return self._captures(None)[0]

    def _captures(self, steps: int | Steps | None) -> tuple[Captures | None, bool]:
        """`captures`, found in so many steps, and whether they take more than were given."""
        if self._grammar is None:
            return {}, False
        try:
            return self._grammar.captures(self._content(), steps=steps), False
        except GrammarLimitError:
            return None, steps is not None
        except GrammarError:
            return None, False

    def _content(self) -> str:
        return "".join(part.text for part in self.parts if part.kind == "content")

    @property
    def deviation(self) -> str | None:
        """Where and how the text first left its definition, or what else could first not be told of it; None
        if nothing did."""
        return self._reading.deviation

    @property
    def takes_ids(self) -> bool:
        """Whether it is fed token ids, not text."""
        return self._takes_ids

    @property
    def is_finished(self) -> bool:
        """Whether the answer is finished."""
        return self._is_finished

    @property
    def is_thinking(self) -> bool:
        """Whether the text is within thoughts."""
        return self._place.is_thinking

    @property
    def thinking_tokens(self) -> int:
        """How many tokens, or pieces of text, came while the text was within thoughts; the one that ends them
        is among them."""
        return self._thinking_tokens

    @property
    def value(self) -> Any:
        """The value of the content so far, read as JSON; None if it is none yet.

        Raises ValueError for content that is not the beginning of a JSON value.
        """
        return self._reading.content_value()

    def validated(self, kind: Any) -> Any:
        """The value of the content as pydantic validates it: a model, a TypedDict, or any other type.

        Raises pydantic's ValidationError, and ImportError without pydantic.
        """
        adapter = importlib.import_module("pydantic").TypeAdapter(kind)
        return adapter.validate_python(self.value)

    def __len__(self) -> int:
        """How many tokens, or pieces of text, have come."""
        return len(self._log)

    def __bool__(self) -> bool:
        """True, also before any has come."""
        return True
