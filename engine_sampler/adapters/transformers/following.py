"""Requests that follow rows which another loop extends: transformers' `input_ids`, call after call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ...contract import Backend, ParameterError
from ...params import SamplingParams
from ...registry import structured_in
from ...scheduler import Scheduler
from ...tokenizer import Tokenizer

T = TypeVar("T")


def spread(name: str, values: Sequence[T], rows: int) -> list[T]:
    """One value per row from one per prompt: the rows of a prompt stand next to each other.

    Raises `ParameterError` naming `name` unless `rows` is a multiple of the number of values.
    """
    if not values or rows % len(values):
        raise ParameterError(f"{name} has {len(values)} entries, which cannot be shared among {rows} rows")
    each = rows // len(values)
    return [value for value in values for _ in range(each)]


def listed(params: SamplingParams | Sequence[SamplingParams]) -> list[SamplingParams]:
    """One `SamplingParams` for all rows, or one per prompt, as a list."""
    many: list[Any] = list(params) if isinstance(params, (list, tuple)) else [params]
    for entry in many:
        if not isinstance(entry, SamplingParams):
            raise ParameterError(
                f"params={entry!r} is not allowed: a SamplingParams, or a list with one per prompt"
            )
    return many


def grammars_of_rows(grammar: Any, rows: int) -> list[Any]:
    """The grammar of every row, from one for all, one per prompt, or None."""
    many = list(grammar) if isinstance(grammar, (list, tuple)) else [grammar]
    if any(hasattr(entry, "fill_bitmask") for entry in many):
        raise ParameterError("grammar holds a matcher; rows need their own: give a compiled grammar, or text")
    return spread("grammar", many, rows)


def tokenizer_of(tokenizer: Any) -> Tokenizer | None:
    """`tokenizer` as ours: it is one, or a fast tokenizer of transformers, or None."""
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    return Tokenizer.from_transformers(tokenizer)


class Follower:
    """A request per row of `input_ids`, brought up to each call's tokens.

    A row that goes on from the last call gets its new tokens; one that does not (beams change places,
    a guess is taken back) starts anew from its history. A call with other prompts starts all anew.
    Request ids are row numbers.

    params          a list of one for all rows, or one per prompt.
    prompt_lengths  tokens of each prompt, the last ones of its columns; what is before them is padding.
    pad_token_id    where the lengths are not given: leading ones are padding.
    """

    scheduler: Scheduler

    def __init__(
        self,
        params: Sequence[SamplingParams],
        *,
        prompt_lengths: Sequence[int] | None = None,
        pad_token_id: int | None = None,
        tokenizer: Tokenizer | None = None,
        eos_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[Any] = (),
        backend: str | Backend = "auto",
    ) -> None:
        self._params = params
        self._lengths = None if prompt_lengths is None else [int(n) for n in prompt_lengths]
        self._pad = pad_token_id
        self._tokenizer = tokenizer
        self._eos = tuple(eos_token_ids)
        self._grammar = grammar
        self._criteria = tuple(stopping_criteria)
        self._backend = backend
        self._columns: np.ndarray | None = None
        """What the last call gave, int64 [rows, length]; None before the first."""
        self._width = 0
        """Columns of the prompts."""

    def reset(self) -> None:
        """Forget all rows: the next call is the first of a generation."""
        self._columns = None

    def follow(self, columns: np.ndarray, width: int, vocab_size: int) -> list[int]:
        """Bring all requests up to `columns` [rows, length]; returns the rows that started anew.

        width       how many columns the prompts have, if this is the first call of a generation.
        vocab_size  what its scheduler is made for.
        """
        known, self._columns = self._columns, columns
        try:
            if known is not None and self._goes_on(known, columns):
                return self._extend(known, columns)
            return self._begin(width, vocab_size)
        except ValueError:
            self.reset()
            raise

    @property
    def live(self) -> list[int]:
        """The rows whose requests have not ended, ascending."""
        ids = set(self.scheduler.request_ids)
        return [row for row in range(len(self._row_params)) if row in ids]

    def reopen(self, row: int) -> None:
        """Let the request of `row`, which has ended, go on from its history."""
        self.scheduler.remove(row)
        self._add(row, 0)

    def has_grammar(self, row: int) -> bool:
        """Whether the tokens of `row` are held to a grammar."""
        params = self._row_params[row]
        has_grammar = self._row_grammars[row] is not None or bool(structured_in(params))
        return params.grammar_bias is None and has_grammar

    def _add(self, row: int, unheard: int) -> None:
        """Add the request of `row`. The criteria have a say to the last `unheard` tokens of its history."""
        assert self._columns is not None
        output: list[int] = self._columns[row, self._width :].tolist()
        known = max(0, len(output) - unheard)
        self.scheduler.add(
            self._row_params[row],
            self._prompt(row),
            request_id=row,
            output_token_ids=output[:known],
            grammar=self._row_grammars[row],
            stopping_criteria=self._criteria,
        )
        self.scheduler.accept(row, output[known:])

    def _goes_on(self, known: np.ndarray, columns: np.ndarray) -> bool:
        """Whether `columns` go on with the generation of `known`: its prompts, one token more at most."""
        if len(columns) != len(known) or not self._width <= columns.shape[1] <= known.shape[1] + 1:
            return False
        return bool((columns[:, : self._width] == known[:, : self._width]).all())

    def _extend(self, known: np.ndarray, columns: np.ndarray) -> list[int]:
        before = known.shape[1]
        live = set(self.live)
        anew = []
        for row in range(len(columns)):
            if before > columns.shape[1] or (known[row] != columns[row, :before]).any():
                self.scheduler.remove(row)
                self._add(row, 1)
                anew.append(row)
            elif row in live:
                self.scheduler.accept(row, columns[row, before:].tolist())
        return anew

    def _begin(self, width: int, vocab_size: int) -> list[int]:
        assert self._columns is not None
        rows = len(self._columns)
        self._row_params = spread("params", self._params, rows)
        self._row_grammars = grammars_of_rows(self._grammar, rows)
        self._row_lengths = None if self._lengths is None else spread("prompt_lengths", self._lengths, rows)
        self.scheduler = Scheduler(
            vocab_size, self._tokenizer, eos_token_ids=self._eos, backend=self._backend
        )
        self._width = width
        for row in range(rows):
            self._add(row, 1)
        return list(range(rows))

    def _prompt(self, row: int) -> list[int]:
        """The tokens of the row's prompt, without padding."""
        assert self._columns is not None
        prompt: list[int] = self._columns[row, : self._width].tolist()
        if self._row_lengths is not None:
            length = self._row_lengths[row]
            if not 0 <= length <= self._width:
                raise ParameterError(f"prompt_lengths has {length}, allowed are 0 to {self._width}")
            return prompt[self._width - length :]
        first = next((place for place, token in enumerate(prompt) if token != self._pad), self._width)
        return prompt[first:]
