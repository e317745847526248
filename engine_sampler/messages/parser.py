"""`MessageParser`: what an answer of a model consists of, while it is written."""

from __future__ import annotations

import codecs
import importlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..base.arguments import not_allowed
from ..base.errors import quoted
from ..contract import ParameterError
from ..params.tools import FAMILIES
from ..params.tools.requests import functions_of
from ..tokenizer import Tokenizer, check_tokenizer
from .alphabet import MarkerAlphabet, without_surrogates
from .definition import AnswerDefinition, family_definition, thinking_definition
from .events import Event
from .following import Following
from .message import MessagePart
from .schemas import SchemaView
from .tags import tag_definition

_EVERY = 64
"""After so many pieces of text, the state is kept: a rollback reads at most as many again."""

_Decoder = codecs.getincrementaldecoder("utf-8")


class MessageParser:
    """Reads the answer of a model as it grows: thoughts, content, and calls of tools with their arguments.

    family          how the model writes them: a name in `TOOL_FAMILIES`; None: there are no calls, or
                    `structural_tag` says how they are written
    tools           the functions that may be called, in OpenAI's form, with the schemas that tell strings
                    from other values where a family does not; None: any
    tool_choice     "none": no call is read
    reasoning       "auto": thoughts between their marks are read wherever they are; "enabled": the text
                    begins within them where the chat template opens them; "disabled": marks of thoughts
                    are content
    starts_inside   whether the text begins within thoughts; None: as `reasoning` says
    structural_tag  a structural tag that constrains the answer (`Grammar.from_structural_tag`)
    reasoning_marks what begins and what ends thoughts, for a model without a family
    tokenizer       whose ids are fed; None: text is fed
    skip_special_tokens  whether special tokens that mark nothing have no text
    stop            strings at the first of which thoughts or content end, and with them what is read; within
                    arguments they have no effect. They are held back where they might begin
    calls_end_thoughts  whether a call that begins within thoughts ends them; else it is a part of them
    resume          whether calls are read again after a call that is not as defined; else all that follows
                    is content
    values          whether arguments are reported by their parts as well (events of the kind "value")
    call_id         what gives a call's id, from its index, its name, and the id that the text gives it or "";
                    None: "call_" and digits that are random for each parser, or the text's

    The definition of a family is the one by which `tool_calls` constrains its answers, but white space is
    free where it has a line break or stands in JSON. The answer need not be constrained: where it leaves its
    definition, that is reported, and the rest is content, so that no text is lost.

        parser = MessageParser("qwen_3", tools, tokenizer=tokenizer)
        for token_id in answer:
            send(chat_deltas(parser.feed([token_id])))
        parser.finish()
        message = chat_message(parser)

    Work is linear in the length of the text. Raises `ParameterError` for what is not allowed.
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
        calls_end_thoughts: bool = False,
        resume: bool = False,
        values: bool = False,
        call_id: Callable[[int, str, str], str] | None = None,
    ) -> None:
        check_tokenizer(tokenizer)
        if reasoning not in ("disabled", "enabled", "auto"):
            raise ParameterError(f"reasoning={quoted(reasoning)} is not allowed: disabled, enabled or auto")
        self._alphabet = MarkerAlphabet(tokenizer, skip_special_tokens)
        definition = _definition(
            family,
            tools,
            tool_choice,
            reasoning,
            starts_inside,
            structural_tag,
            reasoning_marks,
            self._alphabet,
        )
        definition = definition.stopping_at(stops_in(stop))
        definition = replace(definition, calls_end_thoughts=calls_end_thoughts)
        self._pieces = self._alphabet.texts
        self._following = Following(definition, self._alphabet, resume, values, call_id or _default_ids())
        self._decoder = _Decoder("replace")
        self._bytes_wait = False
        self._thinking_tokens = 0
        self._log: list[int | str] = []
        self._kept = [self._state()]

    # --- Feeding ---

    def feed(self, pieces: Iterable[int] | str) -> list[Event]:
        """The events of token ids, or of a piece of text; a rollback counts a piece of text as one token.

        Raises ValueError after `finish`, and `ParameterError` for text where a tokenizer is given, or for ids
        where none is.
        """
        one = self._one(pieces) if type(pieces) is list or type(pieces) is tuple else None
        if one is not None:
            return [one]
        if isinstance(pieces, str) is self.takes_ids:
            allowed = "ids, with a tokenizer" if self.takes_ids else "text, without a tokenizer"
            raise not_allowed("pieces", pieces, allowed)
        if self._following.is_finished:
            raise ValueError("the answer is finished")
        self._read((pieces,) if isinstance(pieces, str) else pieces)
        return self._following.taken()

    def _one(self, pieces: Sequence[int]) -> Event | None:
        """The event of a single token that is no more than text that goes on, as most are; else None, and
        nothing has changed."""
        following = self._following
        special = following.special
        if special is None or len(pieces) != 1 or self._bytes_wait or following.is_finished:
            return None
        text = self._pieces.get(pieces[0])
        if not text or type(text) is not str or special(text) is not None:
            return None
        self._log.append(pieces[0])
        if following.going_on == "thought":
            self._thinking_tokens += 1
        event = following.go_on(text)
        if not len(self._log) % _EVERY:
            self._kept.append(self._state())
        return event

    def finish(self) -> list[Event]:
        """The last events: what was held back, since it might have been the beginning of something."""
        if not self._following.is_finished:
            self._following.finish(self._decoder.decode(b"", final=True))
        return self._following.taken()

    def _read(self, pieces: Iterable[int | str]) -> None:
        """Take pieces; those that are no more than text that goes on together, which is most of them."""
        following, log, known = self._following, self._log, self._pieces
        run: list[str] = []
        special = following.special
        for piece in pieces:
            text = piece if isinstance(piece, str) else known.get(piece)
            if special is not None and type(text) is str and special(text) is None and not self._bytes_wait:
                run.append(text)
            else:
                if run:
                    self._go_on(run)
                    run = []
                self._take(piece)
                special = following.special
            log.append(piece)
            if not len(log) % _EVERY:
                if run:
                    self._go_on(run)
                    run = []
                self._kept.append(self._state())
        if run:
            self._go_on(run)

    def _go_on(self, run: list[str]) -> None:
        if self._following.is_thinking:
            self._thinking_tokens += len(run)
        self._following.keep(self._following.go_on(run[0] if len(run) == 1 else "".join(run)))

    def _take(self, piece: int | str) -> None:
        """Take one piece of any kind."""
        self._thinking_tokens += self._following.is_thinking
        if isinstance(piece, str):
            self._following.advance(without_surrogates(piece))
            return
        text = self._pieces.get(piece)
        if text is None:
            text = self._alphabet.token(piece, self._pieces)
        if self._bytes_wait or isinstance(text, bytes):
            text = self._decoded(text)
        if text:
            self._following.advance(text)

    def _decoded(self, piece: str | bytes) -> str:
        """A piece after bytes that were not whole characters."""
        is_marker = isinstance(piece, str) and self._alphabet.is_marker(piece)
        if is_marker:
            before, self._bytes_wait = self._decoder.decode(b"", final=True), False
            self._decoder.reset()
            return before + str(piece)
        text = self._decoder.decode(piece if isinstance(piece, bytes) else piece.encode())
        self._bytes_wait = bool(self._decoder.getstate()[0])
        return text

    # --- Going back ---

    def _state(self) -> tuple[Any, ...]:
        return self._following.state(), self._decoder.getstate(), self._bytes_wait, self._thinking_tokens

    def _restore(self, state: tuple[Any, ...]) -> None:
        following, decoder, self._bytes_wait, self._thinking_tokens = state
        self._following.restore(following)
        self._decoder.setstate(decoder)

    def rollback(self, n: int) -> None:
        """Take back the last `n` tokens, or pieces of text: the parser is then as if they had not come.

        Events that were given are not taken back. Raises ValueError if there are fewer.
        """
        if not 0 <= n <= len(self._log):
            raise ValueError(f"n={n} is not allowed: 0 to {len(self._log)}")
        if not n and not self._following.is_finished:
            return
        left = len(self._log) - n
        del self._kept[left // _EVERY + 1 :]
        self._restore(self._kept[-1])
        first = (len(self._kept) - 1) * _EVERY
        again = self._log[first:left]
        del self._log[first:]
        self._read(again)
        self._following.taken()

    def fork(self) -> MessageParser:
        """A parser in the same state, which goes on independently."""
        new = object.__new__(MessageParser)
        new._alphabet, new._pieces = self._alphabet, self._pieces
        new._following = self._following.fork()
        new._decoder = _Decoder("replace")
        new._decoder.setstate(self._decoder.getstate())
        new._bytes_wait, new._thinking_tokens = self._bytes_wait, self._thinking_tokens
        new._log, new._kept = self._log.copy(), self._kept.copy()
        return new

    # --- What has been read ---

    @property
    def parts(self) -> Sequence[MessagePart]:
        """What has been read so far: thoughts, content and calls, in the order of the text."""
        return self._following.parts

    @property
    def deviation(self) -> str | None:
        """Where and how the text first left its definition; None if it did not."""
        return self._following.deviation

    @property
    def takes_ids(self) -> bool:
        """Whether it is fed token ids, not text."""
        return self._alphabet.tokenizer is not None

    @property
    def is_finished(self) -> bool:
        """Whether the answer is finished."""
        return self._following.is_finished

    @property
    def is_thinking(self) -> bool:
        """Whether the text is within thoughts."""
        return self._following.is_thinking

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
        return self._following.content_value()

    def validated(self, kind: Any) -> Any:
        """The value of the content as pydantic validates it: a model, a TypedDict, or any other type.

        Raises pydantic's ValidationError, and ImportError without pydantic.
        """
        adapter = importlib.import_module("pydantic").TypeAdapter(kind)
        return adapter.validate_python(self.value)

    def __len__(self) -> int:
        return len(self._log)


def _definition(
    family: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: Any,
    reasoning: str,
    starts_inside: bool | None,
    structural_tag: Mapping[str, Any] | str | None,
    marks: tuple[str, str] | None,
    alphabet: MarkerAlphabet,
) -> AnswerDefinition:
    """The definition that the arguments of a parser name."""
    schemas = None if tools is None else _schemas(tools)
    if tool_choice == "none":
        schemas = {}
    if family is not None:
        if family not in FAMILIES:
            raise ParameterError(f"family={quoted(family)} is not allowed: one of {', '.join(FAMILIES)}")
        if structural_tag is not None or marks is not None:
            raise ParameterError("family is not allowed beside structural_tag or reasoning_marks")
        entry = FAMILIES[family]
        inside = (
            starts_inside if starts_inside is not None else reasoning == "enabled" and entry.starts_inside
        )
        return family_definition(entry, schemas, reasoning, inside, alphabet)
    if marks is not None and (
        not isinstance(marks, tuple | list)
        or len(marks) != 2
        or not all(isinstance(one, str) and one for one in marks)
    ):
        raise not_allowed("reasoning_marks", marks, "two strings: what begins thoughts, and what ends them")
    if reasoning == "disabled":
        marks = None
    inside = bool(starts_inside) if starts_inside is not None else reasoning == "enabled"
    if structural_tag is not None:
        return tag_definition(structural_tag, schemas, marks, inside, alphabet)
    if marks is None:
        return AnswerDefinition()
    return thinking_definition(marks[0], marks[1], inside, alphabet)


def stops_in(stop: Any) -> Sequence[str]:
    """The strings of a parameter `stop`: one, several or none. Raises `ParameterError`."""
    stops = (stop,) if isinstance(stop, str) else stop if isinstance(stop, list | tuple) else (None,)
    if not all(isinstance(one, str) and one for one in stops):
        raise not_allowed("stop", stop, "strings")
    return stops


def _schemas(tools: Any) -> dict[str, SchemaView]:
    return {name: SchemaView(one.get("parameters", True)) for name, one in functions_of(tools).items()}


def _default_ids() -> Callable[[int, str, str], str]:
    prefix = secrets.token_hex(10)
    return lambda index, name, given: given or f"call_{prefix}{index:04}"
