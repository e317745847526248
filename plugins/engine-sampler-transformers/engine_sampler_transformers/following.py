"""Requests that follow rows extended by another loop: transformers' `input_ids`, call after call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Backend
from engine_sampler.for_backends import structured_in
from engine_sampler.for_bridges import integer_of, integers_of, takes_grammar

T = TypeVar("T")


def spread(name: str, values: Sequence[T], rows: int) -> list[T]:
    """One value per row from one per prompt: the rows of a prompt are adjacent.

    Raises `ParameterError` naming `name` unless `rows` is a multiple of the number of values.
    """
    if not values or rows % len(values):
        raise ParameterError(f"{name} has {len(values)} entries, which do not divide {rows} rows evenly")
    rows_per_value = rows // len(values)
    return [value for value in values for _ in range(rows_per_value)]


def listed(params: SamplingParams | Sequence[SamplingParams]) -> list[SamplingParams]:
    """One `SamplingParams` for all rows, or one per prompt, as a list."""
    entries: list[Any] = list(params) if isinstance(params, (list, tuple)) else [params]
    for entry in entries:
        if not isinstance(entry, SamplingParams):
            raise ParameterError(
                f"params={entry!r} is not allowed: a SamplingParams, or a list with one per prompt"
            )
    return entries


def grammars_of_rows(grammar: Any, rows: int) -> list[Any]:
    """The grammar of every row, from one for all rows, one per prompt, or None."""
    entries = list(grammar) if isinstance(grammar, (list, tuple)) else [grammar]
    if any(hasattr(entry, "fill_bitmask") for entry in entries):
        raise ParameterError("grammar has a matcher; rows need their own: give a compiled grammar, or text")
    return spread("grammar", entries, rows)


def tokenizer_of(tokenizer: Any) -> Tokenizer | None:
    """`tokenizer` as our `Tokenizer`: it is one already, or a fast tokenizer of transformers, or None."""
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    return Tokenizer.from_transformers(tokenizer)


class Follower:
    """A request per row of `input_ids`, brought up to each call's tokens.

    A row that continues the last call's gets its new tokens; one that does not (beams swap rows, a draft is
    taken back) restarts from its history. A call with other prompts restarts all rows. Request ids are row
    numbers.

    params          a list with one for all rows, or one per prompt.
    compared        the number of last tokens by which a row that has grown continues another; None: all. A
                    few hundred tell beams apart, and take no longer for a long text.
    prompt_lengths  number of tokens of each prompt, the last ones of its columns; those before are padding.
    pad_token_id    if the lengths are not given: leading tokens with this id are padding.
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
        compared: int | None = None,
    ) -> None:
        self._params = params
        self._compared = compared
        self._lengths = None
        if prompt_lengths is not None:
            lengths = prompt_lengths.tolist() if hasattr(prompt_lengths, "tolist") else prompt_lengths
            self._lengths = integers_of("prompt_lengths", lengths, "a list of lengths")
        if pad_token_id is not None:
            integer_of("pad_token_id", pad_token_id)
        self._pad = pad_token_id
        self._tokenizer = tokenizer
        self._eos = tuple(integers_of("eos_token_ids", eos_token_ids))
        self._grammar = grammar
        self._criteria = tuple(stopping_criteria)
        self._backend = backend
        self._logprobs: list[list[float]] | None = None
        """Of the newest tokens of each row."""
        self._columns: np.ndarray | None = None
        """The columns of the last call, int64 [rows, length]; None before the first."""
        self._width = 0
        """Columns of the prompts."""

    def reset(self) -> None:
        """Forget all rows: the next call is the first of a new generation."""
        self._columns = None

    def follow(
        self,
        columns: np.ndarray,
        width: int,
        vocab_size: int,
        *,
        is_width_known: bool = False,
        logprobs: Callable[[int], np.ndarray] | None = None,
        prompt_lengths: Callable[[], list[int] | None] | None = None,
    ) -> list[int]:
        """Bring all requests up to `columns` [rows, length]; returns the rows that were restarted.

        width           the number of columns of the prompts, if this is the first call of a generation.
        vocab_size      the vocabulary size of its scheduler.
        is_width_known  whether `width` is right for every call: then another one begins a generation, and a
                        call may bring several new tokens.
        logprobs        gives those of the last n columns, [rows, n], for criteria that use them.
        prompt_lengths  gives those of the rows' prompts, if neither lengths nor padding have been given.
        """
        previous, self._columns = self._columns, columns
        continues = previous is not None and not (is_width_known and width != self._width)
        most = columns.shape[1] if is_width_known else 1
        try:
            if previous is not None and continues and self._continues(previous, columns, most):
                new = max(1, columns.shape[1] - previous.shape[1])
                self._logprobs = None if logprobs is None else logprobs(new).tolist()
                return self._extend(previous, columns)
            new = columns.shape[1] - width
            self._logprobs = None if logprobs is None or not new else logprobs(new).tolist()
            has_padding = self._lengths is not None or self._pad is not None
            lengths = None if has_padding or prompt_lengths is None else prompt_lengths()
            return self._begin(width, vocab_size, lengths)
        except ValueError:
            self.reset()
            raise

    @property
    def live(self) -> list[int]:
        """The rows whose requests have not ended, ascending."""
        ids = set(self.scheduler.request_ids)
        return [row for row in range(len(self._row_params)) if row in ids]

    def reopen(self, row: int) -> None:
        """Let the ended request of `row` continue from its history."""
        self.scheduler.remove(row)
        self._add(row, 0)

    def has_min_tokens(self, row: int) -> bool:
        """Whether the output of `row` is as long as its min_tokens."""
        assert self._columns is not None
        return bool(self._columns.shape[1] - self._width >= self._row_params[row].min_tokens)

    def has_grammar(self, row: int) -> bool:
        """Whether the tokens of `row` are constrained by a grammar."""
        params = self._row_params[row]
        return self._row_grammars[row] is not None or (
            bool(structured_in(params)) and not takes_grammar(params)
        )

    def _add(self, row: int, unchecked: int) -> None:
        """Add the request of `row`. The criteria check only the last `unchecked` tokens of its history."""
        assert self._columns is not None
        output: list[int] = self._columns[row, self._width :].tolist()
        checked = max(0, len(output) - unchecked)
        self.scheduler.add(
            self._row_params[row],
            self._prompt(row),
            request_id=row,
            output_token_ids=output[:checked],
            grammar=self._row_grammars[row],
            stopping_criteria=self._criteria,
        )
        self._accept(row, output[checked:])

    def _accept(self, row: int, token_ids: list[int]) -> None:
        """Add the newest tokens, if there are any, to the request of `row`."""
        known = self._logprobs[row][-len(token_ids) :] if self._logprobs and token_ids else ()
        self.scheduler.accept(row, token_ids, known)

    def _continues(self, previous: np.ndarray, columns: np.ndarray, most: int) -> bool:
        """Whether `columns` continue the generation of `previous`: its prompts, and `most` tokens more."""
        length = columns.shape[1]
        if len(columns) != len(previous) or not self._width <= length <= previous.shape[1] + most:
            return False
        first = 0 if length <= previous.shape[1] else self._first_compared(self._width)
        return bool((columns[:, first : self._width] == previous[:, first : self._width]).all())

    def _first_compared(self, length: int) -> int:
        """The first of so many columns that is compared, in rows that have grown."""
        return 0 if self._compared is None else max(0, length - self._compared)

    def _extend(self, previous: np.ndarray, columns: np.ndarray) -> list[int]:
        length = previous.shape[1]
        new = max(1, columns.shape[1] - length)
        first = self._first_compared(length)
        if length > columns.shape[1]:
            differs = np.ones(len(columns), bool)
        else:
            differs = (previous[:, first:] != columns[:, first:length]).any(axis=1)
        continued = [row for row in self.live if not differs[row]]
        restarted: list[int] = differs.nonzero()[0].tolist()
        for row in restarted:
            self.scheduler.remove(row)
            self._add(row, new)
        for row in continued:
            self._accept(row, columns[row, length:].tolist())
        return restarted

    def _begin(self, width: int, vocab_size: int, lengths: list[int] | None) -> list[int]:
        assert self._columns is not None
        rows = len(self._columns)
        self._row_params = spread("params", self._params, rows)
        self._row_grammars = grammars_of_rows(self._grammar, rows)
        lengths = lengths if self._lengths is None else self._lengths
        self._row_lengths = None if lengths is None else spread("prompt_lengths", lengths, rows)
        self.scheduler = Scheduler(
            vocab_size,
            self._tokenizer,
            eos_token_ids=self._eos,
            backend=self._backend,
            limits=RequestLimits.none(),  # the caller's own program writes the parameters
        )
        self._width = width
        for row in range(rows):
            self._add(row, self._columns.shape[1] - width)
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
        first = next((column for column, token in enumerate(prompt) if token != self._pad), self._width)
        return prompt[first:]
