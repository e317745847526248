"""Requests that an engine keeps, and their draws."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..params import RequestLimits, SamplingParams
from ..stateless import RowResult, RowSampler
from ..tokenizer import Tokenizer
from .tensors import to_numpy

logger = logging.getLogger("engine_sampler")

T = TypeVar("T")

_KEYS = itertools.count()


class EngineRequest:
    """A request of an engine, as `BridgeSampler` asks about it.

    key     its name for the sampler, never used twice.
    params  its parameters; the same object as long as they are the same.
    output  its tokens so far, perhaps the engine's own list.
    name    for the log; None: by its row.
    known   how many tokens of it `follow_slots` has read, prompt included.
    """

    name: str | None = None
    known = 0

    def __init__(
        self, params: SamplingParams | None, prompt: Sequence[int] = (), output: Sequence[int] = ()
    ) -> None:
        self.key = next(_KEYS)
        self.params = params
        self.begin(prompt, output)

    def begin(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        """Have these tokens. The prompt may have ids that stand for images and the like."""
        self.output = output
        self._prompt, self._width, self._is_new = prompt, 0, True

    def extend(self, token_ids: Iterable[int]) -> None:
        """Add tokens to its output, which must be a list."""
        self.output += token_ids  # type: ignore[operator]

    def prompt_within(self, vocab_size: int) -> Sequence[int]:
        """Its prompt without ids that are not tokens, the same object each time."""
        if self._width != vocab_size:
            self._prompt, self._width = within(self._prompt, vocab_size), vocab_size
        return self._prompt

    def tokens(self) -> Sequence[int] | None:
        """Its output. None where that ends with −1, a placeholder for a token that is still on its way from
        the device: what the sampler has drawn is its output then."""
        output, is_new, self._is_new = self.output, self._is_new, False
        if not len(output) or output[-1] >= 0:
            return output
        return output[: list(output).index(-1)] if is_new else None


class BridgeSampler:
    """A `RowSampler` for engines whose logits' width is known only at the first step, and that cannot end a
    request from within their sampler.

    engine     its name, for the log.
    tokenizer  for parameters given as text.
    options    as for `RowSampler`; without limits, since what bridges admit has been checked.
    """

    def __init__(self, engine: str, tokenizer: Tokenizer | None = None, **options: Any) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self._options = {"limits": RequestLimits.none()} | options
        self._rows: RowSampler | None = None

    def draw(
        self,
        logits: Any,
        requests: Sequence[EngineRequest] | None,
        *,
        drafts: Sequence[Sequence[int]] | None = None,
        **asked: Any,
    ) -> RowResult:
        """`RowSampler.step` for the rows of these requests. Faulty rows are logged; `tokens_beside` has a
        token for them.

        requests  None for rows of which nobody knows the requests: none of them has been there before, and
                  `asked` has their `params`, `columns` (tensors, too; None is left out), `prompts` and
                  `outputs`.
        drafts    guesses for each key: −1 stands for none, see `tokens_of_drafts`.
        asked     further arguments of `RowSampler.step`.
        """
        width = int(logits.shape[1])
        if self._rows is None or self._rows.vocab_size != width:
            self._rows = RowSampler(width, self._tokenizer, **self._options)
        if drafts is not None:
            asked["draft_token_ids"] = [[max(token_id, 0) for token_id in draft] for draft in drafts]
        if requests is None:
            columns = asked.get("columns", {}).items()
            asked["columns"] = {name: _on_host(column) for name, column in columns if column is not None}
            asked["keys"] = [next(_KEYS) for _ in range(len(logits) if drafts is None else len(drafts))]
        else:
            asked |= {
                "keys": [request.key for request in requests],
                "params": [request.params for request in requests],
                "prompts": [request.prompt_within(width) for request in requests],
                "outputs": [request.tokens() for request in requests],
            }
        drawn = self._rows.step(logits, **asked)
        for row, error in enumerate(drawn.errors):
            if error is not None:
                name = requests[row].name if requests is not None else None
                logger.error("%s: %s: %s", self._engine, name or f"row {row}", error)
        return drawn


def _on_host(column: Any) -> Any:
    return column if isinstance(column, list) else to_numpy(column).reshape(-1)


def tokens_beside(drawn: RowResult, logits: Any) -> Any:
    """int64 [rows], the tokens that have been drawn for torch's `logits` [rows, width], on their device.

    In the first row of a key, where none was drawn because of a fault, stands the likeliest one that is a
    number: an engine cannot end a request from within its sampler. Rows behind a refused draft have −1.
    """
    tokens = drawn.tensors(logits).token_ids
    faulty = [int(row) for row in drawn.first_rows if drawn.token_ids[row] < 0]
    if not faulty:
        return tokens
    tokens = tokens.clone()
    for row in faulty:
        tokens[row] = logits[row].float().nan_to_num(nan=-float("inf")).argmax()
    return tokens


def processed_by(steps: Sequence[Callable[..., Any]], logits: Any, *context: Any) -> Any:
    """torch's `logits` after what others do with them: a copy in float32, if there is any step. Each step is
    called with the logits and `context`, and returns them, or None if it has changed them in place."""
    if not steps:
        return logits
    wide = logits.float()
    logits = wide.clone() if wide is logits else wide
    for step in steps:
        returned = step(logits, *context)
        logits = logits if returned is None else returned
    return logits


def follow_update(
    rows: dict[int, T],
    update: Any,
    enter: Callable[..., T | None],
    leave: Callable[[T], None] = lambda request: None,
) -> None:
    """Apply a change of a persistent batch to what is kept for its rows: removals, then arrivals, then moves.

    update  None for no change; else it has `removed`, `added` and `moved`. Removed are rows. Added is each a
            row and the arguments of `enter`, which gives what is kept for it, or None. Moved is each a row,
            another one that it takes the place of, and a direction: its name is "SWAP" if the two change
            places.
    leave   called with what is no longer there.
    """
    if update is None:
        return
    gone = [rows.pop(row, None) for row in update.removed]
    for row, *what in update.added:
        gone.append(rows.pop(row, None))
        if (entered := enter(*what)) is not None:
            rows[row] = entered
    for source, target, direction in update.moved:
        moving, displaced = rows.pop(source, None), rows.pop(target, None)
        if moving is not None:
            rows[target] = moving
        if direction.name != "SWAP":
            gone.append(displaced)
        elif displaced is not None:
            rows[source] = displaced
    for kept in gone:
        if kept is not None:
            leave(kept)


def tokens_in_slots(
    table: Any,
    slots: np.ndarray,
    known: Sequence[int],
    lengths: Sequence[int],
    prompt_lengths: Sequence[int],
) -> list[tuple[list[int] | None, list[int]]]:
    """What is new in the texts of some slots of `table` [slots, columns], in one copy from its device.

    For a request that goes on, None and the tokens table[slot, known:length]; for a new one (`known` is 0),
    and for one that has been set back (`length` < `known`), its prompt and all that follows.

    known           how many tokens of each slot have been read before.
    lengths         how many there are.
    prompt_lengths  how many of them are the prompt.
    """
    totals = np.array(lengths, np.int64)
    begins = np.where(totals < known, 0, np.array(known, np.int64))
    counts = totals - begins
    ends = np.cumsum(counts)
    columns = np.arange(counts.sum()) + np.repeat(begins - ends + counts, counts)
    tokens = to_numpy(table[np.repeat(slots, counts), columns]).tolist()
    news: list[tuple[list[int] | None, list[int]]] = []
    for begin, end, count, prompt in zip(
        begins.tolist(), ends.tolist(), counts.tolist(), prompt_lengths, strict=True
    ):
        new = tokens[end - count : end]
        news.append((new[:prompt], new[prompt:]) if begin == 0 else (None, new))
    return news


def follow_slots(
    requests: Sequence[EngineRequest],
    slots: np.ndarray,
    table: Any,
    lengths: Sequence[int],
    prompt_lengths: Sequence[int],
    vocab_size: int,
) -> None:
    """Bring requests up to their tokens in the slots of a table on a device, see `tokens_in_slots`: a token
    or a few of each, or all of a new one. Ids beyond the vocabulary are left out."""
    known = [request.known for request in requests]
    news = tokens_in_slots(table, slots, known, lengths, prompt_lengths)
    for request, length, (prompt, output) in zip(requests, lengths, news, strict=True):
        request.known = length
        new = within(output, vocab_size)
        if prompt is not None:
            request.begin(prompt, new)
        else:
            request.extend(new)


def within(token_ids: Iterable[int], vocab_size: int) -> list[int]:
    """`token_ids` without those that stand for images and the like, and without padding."""
    return [token_id for token_id in token_ids if 0 <= token_id < vocab_size]
