"""`Record`, everything known about a request, some of it found when it is first read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ...base.plain_json import _PlainJson, number
from ...contract import Compiled, ConstraintError
from .step_result import RequestId, StopReason, check_plain


@dataclass(frozen=True)
class Parts:
    """What a field of a record is made of when it is first read. Nothing may change it."""

    values: np.ndarray | list[str]

    def joined(self) -> Any:
        """The numbers of an array as a list, or one text of several."""
        return "".join(self.values) if isinstance(self.values, list) else self.values.tolist()


T = TypeVar("T")


@dataclass(frozen=True)
class CapturedTokens(Parts):
    """The output of a request whose grammar has captures, and where that begins to hold in it."""

    grammar: Compiled
    begin: int

    def joined(self) -> Any:
        """The captures; None if finding them takes more steps than it may."""
        try:
            return self.grammar.captures(self.values.tolist(), begin=self.begin)  # type: ignore[union-attr]
        except ConstraintError:
            return None


@dataclass(frozen=True)
class NoCaptures(Parts):
    """Of a request whose grammar has none."""

    values: tuple[()] = ()  # type: ignore[assignment]

    def joined(self) -> Any:
        """No captures."""
        return {}


class MadeWhenRead(Generic[T]):
    """A field that may be given as `Parts`, or is by `default`."""

    def __init__(self, default: Parts | None = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    def __get__(self, record: object | None, owner: type | None = None) -> T:
        if record is None and self._default is not None:
            return cast("T", self._default)
        if record is None:
            raise AttributeError("the field has no default")  # which is how a dataclass asks for it
        value = getattr(record, self._place)
        if isinstance(value, Parts):
            value = value.joined()
            self.__set__(record, value)
        return cast("T", value)

    def __set__(self, record: object, value: T | Parts) -> None:
        object.__setattr__(record, self._place, value)


def _captures(by_name: Mapping[str, Any]) -> dict[str, Any]:
    """(bytes, start, end, tokens) of each capture of each rule."""
    return {
        name: [
            (base64.b64decode(data, validate=True), start, end, tokens and tuple(tokens))
            for data, start, end, tokens in some
        ]
        for name, some in by_name.items()
    }


@dataclass(frozen=True)
class Record(_PlainJson):
    """Everything about one request, live or finished, until it is removed.

    request_id          as given to `Scheduler.add`, or chosen by it.
    prompt_token_ids    list of ids.
    token_ids           the output, a list of ids.
    text                the text of the output as far as it is certain; None without a tokenizer.
    finish_reason       stop, length, repetition, abort or error; None while it continues.
    stop_reason         the stop string, stop token id or criterion; None for EOS.
    error               why it ended with `error`, else None.
    seed                the seed of its draws, given or chosen at random.
    cumulative_logprob  the sum of the output's logprobs, if the request belongs to a group: raw ones with
                        `best_of`, those after the chain in a beam search.
    score               by which a beam search ranks the text: cumulative_logprob / length^length_penalty.
    phase_tokens        how many tokens of the output each phase has had, by the phase's name; None without
                        phases.
    unenforced          what its JSON Schema requires but its grammar does not, in words (`unsupported`), and
                        why a ban has let text stay, the first time.
    rewinds             how often text that came has been taken back (`banned_strings`, `banned_regex`).
    captures            what the rules of its grammar with the attribute `capture` match in the output so far
                        (`CompiledGrammar.captures`): by name, with places in `token_ids`, and in their bytes
                        without special tokens. {} for a grammar without; None where finding them takes too
                        many steps. They are found when this is first read.
    parser              what reads its answer: the argument `parser` itself, or the copy of it that reads the
                        answer of a sibling or a fork. It reads on while the request lives. None without one.
    """

    request_id: RequestId
    _: KW_ONLY
    prompt_token_ids: MadeWhenRead[list[int]] = MadeWhenRead()
    token_ids: MadeWhenRead[list[int]] = MadeWhenRead()
    text: MadeWhenRead[str | None] = MadeWhenRead()
    finish_reason: str | None
    stop_reason: StopReason
    error: str | None
    seed: int
    cumulative_logprob: float | None = field(default=None)
    score: float | None = field(default=None)
    phase_tokens: dict[str, int] | None = field(default=None)
    unenforced: list[str] = field(default_factory=list)
    rewinds: int = 0
    captures: MadeWhenRead[Any] = MadeWhenRead(NoCaptures())
    parser: Any = field(default=None, repr=False, compare=False)

    _READERS = {"cumulative_logprob": number, "score": number, "captures": _captures}
    _LEFT_OUT = ("parser",)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, which `from_dict` reads as an equal record, captures as tuples: all but `parser`. Raises
        `ParameterError` for an id that JSON does not have."""
        check_plain([self.request_id])
        return super().to_dict()
