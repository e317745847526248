"""`sample`, `process_logits` and `logprobs`: single calls that need no long-lived scheduler."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arithmetic import LogitRows, Logprobs, RowFault, RowLogprobs, checked_row, gather, row_logprobs
from .backends.choose import best_backend
from .base.errors import INTERRUPTIONS, failure, quoted
from .contract import Backend, BackendError
from .params import RequestLimits, SamplingParams
from .scheduler import LogprobsByMode, RequestError, Scheduler
from .tokenizer import Tokenizer

Histories = Sequence[Sequence[int]] | None


@dataclass(frozen=True, eq=False)
class Sampled:
    """The result of `sample`, one entry per row. It is equal to itself only: compare its parts.

    token_ids  int64 [rows], −1 for a faulty row.
    logprobs   as in `StepResult`.
    seeds      including those chosen at random.
    errors     None for rows without an error.
    """

    token_ids: np.ndarray
    logprobs: LogprobsByMode
    seeds: list[int]
    errors: list[str | None]


def sample(
    logits: Any,
    params: SamplingParams | Sequence[SamplingParams],
    *,
    prompt_token_ids: Histories = None,
    output_token_ids: Histories = None,
    positions: Sequence[int] | None = None,
    tokenizer: Tokenizer | None = None,
    backend: str | Backend = "auto",
    limits: RequestLimits | None = None,
) -> Sampled:
    """Draw one token for each row of `logits` [rows, vocab].

    params      one for all rows, or one per row.
    prompt_token_ids, output_token_ids  the rows' histories, a list of ids per row.
    positions   the index of each token to draw; default: the length of its history. The same seed at a
                different position gives a different random number.
    limits      how much the parameters may ask for; default: `RequestLimits()`.

    A token whose probability is below 2^−31 of the likeliest one's is never drawn: its integer weight is 0.

    Each row gets the token that a `Scheduler` would give it. Selectors that adapt to the tokens they have
    drawn (mirostat, adaptive_p) start from their initial state in each call.
    """
    rows = LogitRows(logits, 1)
    scheduler = _scheduler(
        rows, params, prompt_token_ids, output_token_ids, positions, tokenizer, backend, limits
    )
    result = scheduler.step(rows)
    return Sampled(result.token_ids, result.logprobs, result.seeds, result.errors)


def process_logits(
    logits: Any,
    params: SamplingParams | Sequence[SamplingParams],
    *,
    prompt_token_ids: Histories = None,
    output_token_ids: Histories = None,
    positions: Sequence[int] | None = None,
    tokenizer: Tokenizer | None = None,
    backend: str | Backend = "auto",
    limits: RequestLimits | None = None,
    inplace: bool = False,
) -> np.ndarray:
    """The rows after the whole chain, without a selector: float32 [rows, width], −inf = removed.

    Temperature 0 leaves only the best token. A faulty row is all NaN, and the reason is logged.

    inplace     write into `logits`, which must be a writable float32 NumPy array, and return it.

    The other keywords are those of `sample`.
    """
    if inplace and not _writable(logits):
        raise ValueError("inplace=True is not allowed: logits must be a writable float32 NumPy array")
    rows = LogitRows(logits, 1)
    scheduler = _scheduler(
        rows, params, prompt_token_ids, output_token_ids, positions, tokenizer, backend, limits
    )
    out: np.ndarray = logits if inplace else np.empty((len(rows), rows.width), np.float32)
    processed = scheduler.process(rows)
    out[:, : processed.shape[1]] = processed
    out[:, processed.shape[1] :] = -np.inf
    return out


def _scheduler(
    logits: LogitRows,
    params: SamplingParams | Sequence[SamplingParams],
    prompts: Histories,
    outputs: Histories,
    positions: Sequence[int] | None,
    tokenizer: Tokenizer | None,
    backend: str | Backend,
    limits: RequestLimits | None,
) -> Scheduler:
    """A scheduler with one request per row."""
    rows = len(logits)
    params_by_row = [params] * rows if isinstance(params, SamplingParams) else list(params)
    by_parameter = {
        "params": params_by_row,
        "prompt_token_ids": prompts,
        "output_token_ids": outputs,
        "positions": positions,
    }
    for name, values in by_parameter.items():
        if values is not None and len(values) != rows:
            raise ValueError(f"{name} has {len(values)} entries for {rows} rows of logits")
    size = len(tokenizer) if tokenizer else logits.width
    scheduler = Scheduler(size, tokenizer, backend=backend, limits=limits, postpone=False)
    alike = prompts is None and outputs is None and positions is None
    first = None
    for i, row_params in enumerate(params_by_row):
        if alike and i and row_params is params_by_row[i - 1] and _forked(scheduler, first, row_params):
            continue
        first = scheduler.add(
            row_params,
            prompts[i] if prompts is not None else (),
            output_token_ids=outputs[i] if outputs is not None else (),
            position=None if positions is None else positions[i],
        )
    return scheduler


def _forked(scheduler: Scheduler, request_id: Any, params: SamplingParams) -> bool:
    """Add a request like the one of this id, in half the time that `add` takes; False if a plugin cannot
    copy its state."""
    try:
        scheduler.fork(request_id, seed=secrets.randbits(64) if params.seed is None else None)
    except RequestError:
        return False
    return True


def _writable(logits: Any) -> bool:
    return isinstance(logits, np.ndarray) and logits.dtype == np.float32 and logits.flags.writeable


def logprobs(logits: Any, token_ids: Sequence[int] | np.ndarray, top_n: int = 0) -> Logprobs:
    """Logprobs of given tokens, to score a prompt or a completion.

    logits     [rows, vocab], in any form that `Scheduler.step` accepts; row i predicts token_ids[i].
    token_ids  integers [rows].
    top_n      how many of the most likely tokens to list in addition; −1 = all.

    A faulty row (NaN, +inf, a logit above 2^100, or nothing but −inf) has no logprobs (NaN) and rank 0.
    Raises ValueError for wrong shapes and for ids outside the vocabulary, and `BackendError` if a backend
    gives something that is not the logprobs of these rows.
    """
    rows = LogitRows(logits, 1)
    chosen = np.asarray(token_ids, np.int64)
    if chosen.shape != (len(rows),):
        raise ValueError(f"token_ids have shape {chosen.shape}; allowed is [{len(rows)}], one per row")
    if ((chosen < 0) | (chosen >= rows.width)).any():
        raise ValueError(f"token_ids must lie in 0..{rows.width - 1}")
    if top_n < -1:
        raise ValueError(f"top_n={top_n} is not allowed: -1 for all, or at least 0")
    wide = LogitRows(rows, rows.width)
    reported = _reported_logprobs(best_backend(rows.device), wide, chosen, top_n)
    return _host_logprobs(wide, chosen, top_n) if reported is None else reported


def _reported_logprobs(
    backend: Backend, logits: LogitRows, token_ids: np.ndarray, top_n: int
) -> Logprobs | None:
    """What the backend gives: one row for each token, which comes first in it unless the row is faulty."""
    try:
        reported = backend.logprobs(logits, token_ids.copy(), top_n)
        if reported is None or (
            type(reported) is Logprobs and _is_sound(reported, token_ids, logits.width, top_n)
        ):
            return reported
    except (BackendError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise BackendError(failure(f"backend {backend.name}", error)) from error
    raise BackendError(f"backend {backend.name} failed: it gave {quoted(reported)}, not these rows' logprobs")


def _is_sound(found: Logprobs, token_ids: np.ndarray, width: int, top_n: int) -> bool:
    ids, values, starts, ranks = found.entry_token_ids, found.entry_logprobs, found.starts, found.ranks
    kinds = ((ids, np.int64), (values, np.float32), (starts, np.int64), (ranks, np.int64))
    if any(type(array) is not np.ndarray or array.dtype != kind or array.ndim != 1 for array, kind in kinds):
        return False
    rows, room = len(token_ids), 1 + (width if top_n < 0 else top_n)
    if len(starts) != rows + 1 or len(ranks) != rows or len(ids) != len(values) or starts[0] != 0:
        return False
    lengths = np.diff(starts)
    if starts[-1] != len(ids) or (lengths < 1).any() or (lengths > room).any():
        return False
    fits = (ids >= -1).all() and (ids < width).all() and (ranks >= 0).all() and (ranks <= width).all()
    first = ids[starts[:-1]]
    return bool(fits and ((first == token_ids) | (first == -1)).all())


def _host_logprobs(logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs:
    entries: list[RowLogprobs | None] = []
    for i, token_id in enumerate(token_ids.tolist()):
        try:
            entries.append(row_logprobs(checked_row(logits.row(i)), token_id, top_n))
        except RowFault:
            entries.append(None)
    out = gather(entries)
    out.entry_token_ids[out.starts[:-1]] = token_ids
    return out
