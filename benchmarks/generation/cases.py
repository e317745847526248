"""What is generated: the chain, the grammar and the cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from engine_sampler import Grammar, Tokenizer
from engine_sampler.grammar.compiled import CompiledGrammar

from ..cases import DEFAULT

CHAIN: Mapping[str, Any] = DEFAULT
"""llama.cpp's default, under names that all systems share."""
SCHEMA = {"type": "array", "items": {"type": "string"}, "minItems": 500}
"""An array that does not end during a measurement. Within its strings a grammar refuses few of the tokens
that a model without training proposes, as it refuses few of those of a model that writes JSON by itself."""
TOP_N = 5
"""How many of the likeliest tokens are listed with logprobs."""


class Case(NamedTuple):
    """Texts of `tokens` tokens, generated in one batch, and what sampling does for them besides the chain."""

    rows: int
    tokens: int
    grammar: bool = False
    logprobs: bool = False

    def __str__(self) -> str:
        return f"{self.rows} row{'s' * (self.rows > 1)}, {self.extras}"

    @property
    def extras(self) -> str:
        """What sampling does besides the chain."""
        names = [name for name in ("grammar", "logprobs") if getattr(self, name)]
        return " and ".join(names) or "the chain"


def prompts(rows: int) -> list[str]:
    """A short prompt for each row."""
    return [f"Number {chr(ord('A') + row)}" for row in range(rows)]


@cache
def compiled_grammar(tokenizer: Tokenizer) -> CompiledGrammar:
    """Our grammar of `SCHEMA`."""
    return Grammar.from_json_schema(SCHEMA).compile(tokenizer)
