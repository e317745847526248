"""The matcher: the grammar decides which tokens parse, the type checker which of these are well typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine_sampler import Grammar, Tokenizer
from engine_sampler.contract import allocate_bitmask

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


class TypedExpressions:
    """The language for any tokenizer, which the plugin registers."""

    def compile(self, tokenizer: Tokenizer) -> CompiledExpressions:
        """The language for a tokenizer."""
        return CompiledExpressions(tokenizer)


class CompiledExpressions:
    """The language for a tokenizer; shared by all its matchers."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.syntax = Grammar.from_lark(SYNTAX).compile(tokenizer)
        pieces = tokenizer.token_bytes
        self.eos = np.zeros(len(pieces), bool)
        self.eos[list(tokenizer.eos_token_ids)] = True
        self.order = np.array(sorted(range(len(pieces)), key=pieces.__getitem__), np.int64)
        """Token ids sorted by their bytes, so that neighbours share prefixes."""

    def matcher(self) -> TypedMatcher:
        """A matcher at the beginning of a program."""
        return TypedMatcher(self, self.syntax.matcher(), [Checker()])


class TypedMatcher:
    """One program; see `engine_sampler.grammar.Matcher` for the methods."""

    def __init__(self, compiled: CompiledExpressions, syntax: Any, checkers: list[Checker]) -> None:
        self._compiled = compiled
        self._syntax = syntax
        self._checkers = checkers
        """The checker at the beginning, and after each accepted token."""

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`."""
        self._syntax.fill_bitmask(bitmask, row)
        bits = np.unpackbits(bitmask[row].view(np.uint8), bitorder="little").view(bool)
        if not self.is_terminated():
            self._narrow(bits)
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    def _narrow(self, allowed: np.ndarray) -> None:
        """Remove from `allowed`, bool [vocab or more], the tokens after which no ending is well typed."""
        compiled, checker = self._compiled, self._checkers[-1]
        count = len(compiled.eos)
        if not checker.ends():
            allowed[:count] &= ~compiled.eos
        path = [checker]  # the checkers after each byte of the previous token, up to the refused one
        previous = b""
        refused: bytes | None = None
        for token_id in compiled.order[allowed[compiled.order] & ~compiled.eos[compiled.order]].tolist():
            piece = compiled.tokenizer.token_bytes[token_id]
            if refused is not None and piece.startswith(refused):
                allowed[token_id] = False
                continue
            del path[_common_prefix(previous, piece) + 1 :]
            _extend(path, piece)
            previous, refused = piece, None
            if len(path) <= len(piece):
                allowed[token_id] = False
                refused = piece[: len(path)]

    def accept(self, token_id: int) -> bool:
        """Accept a token; False, and nothing changes, if it cannot follow."""
        tokenizer = self._compiled.tokenizer
        if token_id in tokenizer.eos_token_ids:
            after: Checker | None = self._checkers[-1] if self._checkers[-1].ends() else None
        else:
            in_range = 0 <= token_id < len(tokenizer)
            after = self._read(tokenizer.token_bytes[token_id]) if in_range else None
        return self._advance(after, lambda: self._syntax.accept(token_id))

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes that need not form a token; False, and nothing changes, if they cannot follow."""
        return self._advance(self._read(data), lambda: self._syntax.accept_bytes(data))

    def _read(self, data: bytes) -> Checker | None:
        checker: Checker | None = self._checkers[-1]
        for byte in data:
            checker = None if checker is None else checker.read(byte)
        return checker

    def _advance(self, after: Checker | None, accept: Any) -> bool:
        if after is None or not accept():
            return False
        self._checkers.append(after)
        return True

    def rollback(self, n: int) -> None:
        """Undo the last n accepts; ValueError if there are fewer."""
        self._syntax.rollback(n)
        del self._checkers[len(self._checkers) - n :]

    def fork(self) -> TypedMatcher:
        """An independent copy."""
        return TypedMatcher(self._compiled, self._syntax.fork(), self._checkers.copy())

    def is_accepting(self) -> bool:
        """Whether the program may end here."""
        return bool(self._syntax.is_accepting()) and self._checkers[-1].ends()

    def is_terminated(self) -> bool:
        """Whether the program has ended."""
        return bool(self._syntax.is_terminated())

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens can be accepted in sequence; nothing changes."""
        trial = self.fork()
        return next((i for i, token_id in enumerate(token_ids) if not trial.accept(token_id)), len(token_ids))

    def forced_tokens(self) -> list[int]:
        """The tokens that must follow: as long as the mask allows a single one."""
        forced: list[int] = []
        trial = self.fork()
        bitmask = allocate_bitmask(1, len(self._compiled.eos))
        while not trial.is_terminated():
            trial.fill_bitmask(bitmask)
            bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")
            if bits.sum() != 1 or not trial.accept(int(bits.argmax())):
                break
            forced.append(int(bits.argmax()))
        return forced


def _extend(path: list[Checker], piece: bytes) -> None:
    """Add the missing checkers after the bytes of a token, up to the first byte that is refused."""
    for byte in piece[len(path) - 1 :]:
        following = path[-1].read(byte)
        if following is None:
            break
        path.append(following)


def _common_prefix(one: bytes, other: bytes) -> int:
    """The length of the common prefix."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
