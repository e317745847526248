"""What a grammar allows after the beginning of a text, and how the text is read up to there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..contract import allocate_bitmask, unpack_bitmask
from ..grammar import CompiledGrammar, Grammar
from ..tokenizer import Tokenizer

if TYPE_CHECKING:
    from ..grammar.engines.reference.readings import Readings


@dataclass(frozen=True)
class MaskExplanation:
    """A mask, and where it comes from.

    text         what has been read of the beginning
    refused      the first byte that cannot follow; None if all of it has been read
    engine       "native" or "reference": whose mask it is
    allowed      bool [vocab], the tokens that may follow
    may_end      whether the text may end
    next_bytes   the bytes that may follow, ascending
    forced       the bytes that must follow
    readings     the ways to read the text, and the rows that they are in, of the reference engine
    compared     the engine that it was compared with; None if there is no other
    differences  what that one says otherwise, at the first place where it does
    """

    text: bytes
    refused: int | None
    engine: str
    allowed: np.ndarray
    may_end: bool
    next_bytes: bytes
    forced: bytes
    readings: Readings
    compared: str | None
    differences: tuple[str, ...]


class _Follower(NamedTuple):
    """A text under one engine."""

    engine: str
    matcher: Any

    def place(self) -> tuple[bool, bytes]:
        return self.matcher.is_accepting(), self.matcher.next_bytes()


def explain_mask(
    grammar: Grammar, tokenizer: Tokenizer, beginning: bytes, engine: str = "auto"
) -> MaskExplanation:
    """What `grammar` allows after `beginning`, or after what can be read of it.

    engine  "native", "reference" or "auto", which is that of `Grammar.compile`

    Both engines read the text and are compared: before each byte whether the text may end and which bytes may
    follow, and at the end the masks. Raises GrammarError for an engine that is not there, and
    GrammarLimitError.
    """
    from ..grammar.engines.reference.readings import readings_of

    own, reference, other = _followers(grammar, tokenizer, engine)
    text, differences = _read(beginning, own, other)
    allowed = _allowed(own, len(tokenizer))
    if other is not None and not differences:
        differences = _different_tokens(own, allowed, other, _allowed(other, len(tokenizer)))
    may_end, next_bytes = own.place()
    return MaskExplanation(
        text=text,
        refused=beginning[len(text)] if len(text) < len(beginning) else None,
        engine=own.engine,
        allowed=allowed,
        may_end=may_end,
        next_bytes=next_bytes,
        forced=own.matcher.forced_bytes(),
        readings=readings_of(getattr(reference.matcher, "matcher", reference.matcher)),
        compared=None if other is None else other.engine,
        differences=tuple(differences),
    )


def _followers(
    grammar: Grammar, tokenizer: Tokenizer, engine: str
) -> tuple[_Follower, _Follower, _Follower | None]:
    """Of the engine that was asked for, of the reference engine, and of the one that is not the former."""

    def follower(name: str) -> _Follower:
        names = grammar.special_names
        compiled = CompiledGrammar(grammar.program, tokenizer, special_names=names, engine=name)
        return _Follower(name, compiled.matcher())

    from ..grammar.engines.native import load_library

    if engine == "auto":
        engine = grammar.compile(tokenizer).engine
    own = follower(engine)
    if engine == "native":
        reference = follower("reference")
        return own, reference, reference
    return own, own, None if load_library() is None else follower("native")


def _read(beginning: bytes, own: _Follower, other: _Follower | None) -> tuple[bytes, list[str]]:
    """Have both read as far as they agree; returns what has been read, and their differences then."""
    for count in range(len(beginning) + 1):
        if other is not None and (differences := _different_places(own, other)):
            return beginning[:count], [f"after {count} bytes, {text}" for text in differences]
        byte = beginning[count : count + 1]
        if not byte or not own.matcher.accept_bytes(byte):
            break
        if other is not None:
            other.matcher.accept_bytes(byte)
    return beginning[:count], []


def _different_places(own: _Follower, other: _Follower) -> list[str]:
    (may_end, next_bytes), (others_may_end, others_bytes) = own.place(), other.place()
    differences = []
    if may_end != others_may_end:
        differences.append(f"{own.engine if may_end else other.engine} alone lets the text end")
    for one, allowed, rest in ((own, next_bytes, others_bytes), (other, others_bytes, next_bytes)):
        if more := bytes(byte for byte in allowed if byte not in rest):
            differences.append(f"{one.engine} alone allows the bytes {more!r}")
    return differences


def _different_tokens(own: _Follower, allowed: np.ndarray, other: _Follower, others: np.ndarray) -> list[str]:
    differences = []
    for one, more in ((own, allowed & ~others), (other, others & ~allowed)):
        if more.any():
            ids = np.flatnonzero(more)
            more_ids = f" and {len(ids) - 10} more" * (len(ids) > 10)
            differences.append(f"{one.engine} alone allows the tokens {ids[:10].tolist()}{more_ids}")
    return differences


def _allowed(follower: _Follower, vocab_size: int) -> np.ndarray:
    bitmask = allocate_bitmask(1, vocab_size)
    follower.matcher.fill_bitmask(bitmask)
    return unpack_bitmask(bitmask[0], vocab_size)
