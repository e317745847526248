"""grammar_bias: favour the tokens that a grammar allows, without forbidding any others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...contract import (
    Example,
    Param,
    ParameterError,
    Rows,
    Sampler,
    Vocabulary,
    Work,
    bitmask_words,
    is_bounded,
    unpack_bitmask,
)
from ...registry import STRUCTURED_PARAMS, constraint_reader, structured_in
from ...samplers._columns import finite_columns, store


class Guidance:
    """A text that follows a grammar but may leave its language; after that, no token is favoured."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._known: tuple[int, np.ndarray | None] = (-1, None)
        """After how many tokens which ones were allowed."""
        self._matcher: Any = None
        self._accepted = 0
        self._bitmask = np.zeros((1, 0), np.int32)

    def allowed(self, constraint: Any, vocab_size: int, work: Work | None = None) -> np.ndarray | None:
        """The ids of the tokens that the grammar allows next, ascending; None once the text has left its
        language. Raises UnfinishedError if that takes more than `work`."""
        if self._known[0] != len(self.tokens):
            self._known = len(self.tokens), self._found(constraint, vocab_size, work)
        return self._known[1]

    def _found(self, constraint: Any, vocab_size: int, work: Work | None) -> np.ndarray | None:
        if self._matcher is None:
            self._matcher = constraint.matcher()
            self._bitmask = np.zeros((1, bitmask_words(vocab_size)), np.int32)
        matcher = self._matcher
        limit = () if work is None or not is_bounded(matcher) else (work,)
        while self._accepted < len(self.tokens):
            if not matcher.accept(self.tokens[self._accepted], *limit):
                return None
            self._accepted += 1
        matcher.fill_bitmask(self._bitmask, 0, *limit)
        return np.flatnonzero(unpack_bitmask(self._bitmask[0], vocab_size))

    def rollback(self, n: int) -> None:
        """Remove the last n tokens."""
        self._known = (-1, None)
        del self.tokens[len(self.tokens) - n :]
        if self._accepted > len(self.tokens):
            self._matcher.rollback(self._accepted - len(self.tokens))
            self._accepted = len(self.tokens)

    def fork(self) -> Guidance:
        """An independent copy."""
        other = Guidance()
        other.tokens, other._known = self.tokens.copy(), self._known
        if self._matcher is not None:
            other._matcher, other._accepted = self._matcher.fork(), self._accepted
            other._bitmask = np.zeros_like(self._bitmask)
        return other


class GrammarBias(Sampler):
    """Add a bias to the logits of the tokens that the request's grammar allows.

    Formula: l + grammar_bias for allowed tokens. The grammar is the one given by json_schema, regex, choice,
    grammar, json_object or structural_tag; it then masks nothing. After a text has left the language, it
    continues without guidance. None is neutral: the grammar masks.

    Source: this package; constrained decoding distorts the distribution, and a bias is a milder form of it.
    """

    name = "grammar_bias"
    role = "edit"
    lazy = True
    takes_grammar = True
    params = (
        Param("grammar_bias", float, None, low=-1e6, high=1e6, doc="favour the grammar's tokens, mask none"),
    )
    examples = (
        Example((2.0, 1.0, 0.5, 0.0), {"grammar_bias": 3.0, "regex": "(ab)+"}, (2.0, 4.0, 0.5, 0.0),
                output_token_ids=(0,), token_bytes=(b"a", b"b", b"c", b"abc"),
                note="after a, only b can follow"),
        Example((2.0, 1.0, 0.5, 0.0), {"grammar_bias": 3.0, "choice": ["a", "b"]}, (2.0, 1.0, 0.5, 0.0),
                output_token_ids=(2, 0), token_bytes=(b"a", b"b", b"c", b"abc"),
                note="c is not one of the choices: no token is favoured after it"),
    )  # fmt: skip

    def check(self, params: Mapping[str, Any]) -> None:
        given = params["grammar_bias"]
        if given is not None and not structured_in(params):
            allowed = ", ".join(STRUCTURED_PARAMS)
            raise ParameterError(f"grammar_bias={given} is not allowed alone: it needs one of {allowed}")

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
        if not structured_in(params):
            return None
        return constraint_reader(vocabulary.grammar_engine).compiled(params, None, vocabulary)

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> Guidance:
        return Guidance()

    def accept(self, state: Guidance, token_ids: Sequence[int]) -> None:
        state.tokens += token_ids

    def rollback(self, state: Guidance, n: int) -> None:
        state.rollback(n)

    def fork(self, state: Guidance) -> Guidance:
        return state.fork()

    def prepare(self, rows: Rows, work: Work | None) -> None:
        (guidance,), (constraint,) = rows.states, rows.resolved
        guidance.allowed(constraint, rows.vocabulary.size, work)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        biases = rows["grammar_bias"]
        for i, (row, favoured) in enumerate(zip(logits, favoured_ids(rows), strict=True)):
            if favoured is not None:
                columns, _ = finite_columns(row, rows, i, favoured)
                store(row, columns, row[columns] + np.float32(biases[i]))


def favoured_ids(rows: Rows) -> Iterator[np.ndarray | None]:
    """For each row, the ids of the tokens that its grammar allows next, ascending; None if its text has left
    the language."""
    for state, constraint in zip(rows.states, rows.resolved, strict=True):
        yield state.allowed(constraint, rows.vocabulary.size)
