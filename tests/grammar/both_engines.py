"""The grammar engines: all of them pass the same tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Limits
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.program.rules import Program, Rules

Engine: TypeAlias = Callable[..., Any]
"""Compiles program, token_bytes, eos_token_ids=(), special_token_ids=() to an object with `.matcher()`."""


def native_grammar(
    program: Program,
    token_bytes: Sequence[bytes],
    eos_token_ids: Sequence[int] = (),
    special_token_ids: Sequence[int] = (),
) -> native.NativeGrammar:
    """A grammar compiled by the engine in C."""
    tokenizer = Tokenizer(token_bytes, eos_token_ids, special_token_ids)
    return native.NativeGrammar(program, native.NativeVocabulary(tokenizer, Limits()), Limits())


ENGINES: dict[str, Engine] = {"reference": ReferenceGrammar}
if native.load_library() is not None:
    ENGINES["native"] = native_grammar

FASTEST: Engine = ENGINES.get("native", ReferenceGrammar)
"""The engine that tests of front ends use."""

every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())


def accepts(engine: Engine, rules: Rules, text: bytes) -> bool:
    """Whether `text` is in the language of `rules`."""
    matcher = engine(rules.program(), ()).matcher()
    return bool(matcher.accept_bytes(text) and matcher.is_accepting())


def allowed(matcher: Any, count: int) -> set[int]:
    """The tokens of a vocabulary of `count` tokens that the mask allows."""
    bitmask = np.full((2, (count + 31) // 32), -1, np.int32)
    matcher.fill_bitmask(bitmask, 1)
    assert (bitmask[0] == -1).all()
    bits = np.unpackbits(bitmask[1].view(np.uint8), bitorder="little")
    assert not bits[count:].any()
    return set(np.flatnonzero(bits[:count]).tolist())


def tried(matcher: Any, count: int) -> set[int]:
    """The tokens that a fork of the matcher accepts."""
    return {token_id for token_id in range(count) if matcher.fork().accept(token_id)}
