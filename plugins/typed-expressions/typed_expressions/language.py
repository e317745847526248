"""The language: the grammar decides which tokens parse, the type checker which of these are well typed."""

from __future__ import annotations

from typing import Any

from engine_sampler import Grammar, Tokenizer
from engine_sampler.contract import BytewiseLanguage

from .checker import Checker

SYNTAX = r"""
start: expression

expression: LET NAME ":" TYPE "=" expression IN expression
          | IF expression THEN expression ELSE expression
          | sum [("<" | "==") sum]
sum: operand ("+" operand)*
operand: NAME | NUMBER | TEXT | TRUE | FALSE | "(" expression ")"

LET: /let(?![a-z])/
IN: /in(?![a-z])/
IF: /if(?![a-z])/
THEN: /then(?![a-z])/
ELSE: /else(?![a-z])/
TRUE: /true(?![a-z])/
FALSE: /false(?![a-z])/
TYPE: /(int|str|bool)(?![a-z])/
NAME: /(?!(let|in|if|then|else|true|false|int|str|bool)(?![a-z]))[a-z]+(?![a-z])/
NUMBER: /[0-9]+(?![0-9])/
TEXT: /"[^"\\\n]*"/
%ignore /[ \n]+/
"""
"""The syntax. Words and numbers are as long as possible, because the checker splits the text that way."""


class TypedExpressions(BytewiseLanguage):
    """Well-typed programs: those of the syntax that the checker reads to an end."""

    start = Checker()

    def read(self, state: Checker, byte: int) -> Checker | None:
        return state.read(byte)

    def may_end(self, state: Checker) -> bool:
        return state.ends()

    def within(self, tokenizer: Tokenizer) -> Any:
        return Grammar.from_lark(SYNTAX).compile(tokenizer)
