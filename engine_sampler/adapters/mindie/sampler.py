"""`Sampler`: MindIE's `sample`, implemented with this library's scheduler."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ...arithmetic import LogitRows, Logprobs
from ...backends.choose import named_backend
from ...contract import Backend
from ...params import SamplingParams
from ...scheduler import LogprobsByMode
from ...stateless import process_logits, sample
from .._tensors import library_of, like, to_numpy
from .cache import RequestCache
from .errors import InconsistencyError, OutOfBoundsError, UnsupportedTypeError
from .fields import MAX_ROWS, PARAMS, check_lengths, ids_field
from .histories import GivenTokens, HistoryRow, Padding
from .inputs import SamplingData, SamplingParam
from .metadata import NO_LOGPROB, SamplingMetadata, SamplingOutput, sibling_seed
from .settings import MODES, is_greedy, row_settings, with_seed

logger = logging.getLogger("engine_sampler")

DATA = ("request_ids", "all_input_ids", "output_ids")

_T = TypeVar("_T")


class Sampler:
    """Draws the next tokens of a batch, as MindIE's `sample` does.

    mode          "documented": a row samples if `do_sample` is set or, without `do_sample`, if its
                  temperature, top_k or top_p is not neutral. "observed": without `do_sample` every row
                  is greedy. A temperature of 0 is greedy in both.
    pad_token_id  the token with which the callers pad rows of ids. −1 and the width of the logits are
                  padding in any case.
    backend, num_threads  as in `Scheduler`.

    Requests with ids are cached from their first call until `clear_cache`: tokens, seed and position.
    A call may repeat tokens and settings or omit them. Given values take effect at once; if a call takes
    tokens back, the cached state is rolled back as well.
    """

    def __init__(
        self,
        *,
        mode: str = "documented",
        pad_token_id: int | None = None,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
    ) -> None:
        if mode not in MODES:
            raise OutOfBoundsError(f"mode={mode!r} is not allowed: one of {', '.join(MODES)}")
        if pad_token_id is not None and (
            isinstance(pad_token_id, bool) or not isinstance(pad_token_id, (int, np.integer))
        ):
            raise UnsupportedTypeError(f"pad_token_id={pad_token_id!r} is not allowed: a token id, or None")
        named_backend(backend)
        self.mode = mode
        self.pad_token_id = pad_token_id
        self.errors: list[str | None] = []
        """The reasons why rows of the last call have no token; None for the others."""
        self._backend = backend
        self._cache = RequestCache(backend, num_threads)
        self._configured: dict[int, SamplingParams] = {}

    def sample(
        self,
        logits: Any,
        sampling_data: SamplingData | SamplingMetadata | None = None,
        sampling_param: SamplingParam | None = None,
        *,
        sampling_metadata: SamplingMetadata | None = None,
    ) -> tuple[Any, Any] | SamplingOutput:
        """Draw a token for each row of `logits` [rows, vocab]; (next_tokens, logits_or_logprobs).

        With `SamplingMetadata` in place of the pair, the result is a `SamplingOutput` instead.

        next_tokens         int64 [rows], −1 for a faulty row (NaN, +inf, or no token left), whose reason
                            is logged and in `errors`; its request continues.
        logits_or_logprobs  float32 [rows]. For a sampled row: the natural logarithm of the drawn token's
                            probability after penalties, temperature, top_k and top_p. For a greedy row:
                            the best token's logit after penalties; in the mode "observed" 0, the
                            logarithm of probability 1. If all rows are greedy: None, or in the mode
                            "observed" −9999 in all rows. For a faulty row: −9999.

        Both are arrays of the library of `logits`, on its device (NumPy, torch, MindSpore).
        Without `sampling_param` a cached request keeps its settings, and any other row is greedy.
        Raises `ValidationError`, `ParameterError`, TypeError or ValueError before anything changes.
        """
        if isinstance(sampling_data, SamplingMetadata):
            sampling_data, sampling_metadata = None, sampling_metadata or sampling_data
        metadata = _instance("sampling_metadata", sampling_metadata, SamplingMetadata)
        if metadata is not None:
            if sampling_param is not None or sampling_data is not None:
                raise InconsistencyError(
                    "sampling_metadata replaces sampling_data and sampling_param: give it alone"
                )
            return self._sample_groups(readable(logits), metadata)
        data = _instance("sampling_data", sampling_data, SamplingData) or SamplingData()
        rows = readable(logits)
        check_lengths(len(rows), {name: getattr(data, name) for name in DATA}, "logits")
        settings = self._settings(_instance("sampling_param", sampling_param, SamplingParam), len(rows))
        given = self._given(rows.width, data.all_input_ids, data.output_ids, [data.is_prefill] * len(rows))
        if data.request_ids is None:
            greedy = row_settings({}, len(rows), self.mode)
            drawn = [g.uncached(s) for g, s in zip(given, settings or greedy, strict=True)]
            token_ids, logprobs, self.errors = _draw(rows, drawn, self._backend)
        else:
            request_ids = data.request_ids.tolist()
            drawn = self._join(request_ids, given, settings, rows.width, None)
            result = self._cache.step(rows, request_ids, None)
            token_ids, logprobs, self.errors = result.token_ids, result.logprobs, result.errors
        _log(self.errors)
        return like(logits, token_ids, "int64"), self._values(logits, rows, drawn, logprobs)

    def configure(self, sampling_data: SamplingData, sampling_param: SamplingParam) -> None:
        """Store the settings of the requests in `sampling_data.request_ids` for their next call without
        `sampling_param`. Raises `ValidationError` before anything changes."""
        data = _instance("sampling_data", sampling_data, SamplingData)
        param = _instance("sampling_param", sampling_param, SamplingParam)
        if data is None or param is None or data.request_ids is None:
            raise InconsistencyError("configure needs sampling_data with request_ids, and sampling_param")
        settings = self._settings(param, len(data.request_ids)) or []
        self._configured.update(zip(data.request_ids.tolist(), settings, strict=True))

    def clear_cache(self, sequence_ids: Any) -> None:
        """Forget requests; unknown ids are ignored.

        sequence_ids  int [requests], their ids.
        """
        ids = np.asarray(sequence_ids)
        if not ids.size:
            return
        forgotten = [] if (checked := ids_field("sequence_ids").check(ids)) is None else checked.tolist()
        self._cache.forget(forgotten)
        for request_id in forgotten:
            self._configured.pop(request_id, None)

    # --- implementation --------------------------------------------------------------------------

    def _settings(self, param: SamplingParam | None, rows: int) -> list[SamplingParams] | None:
        if param is None:
            return None
        return row_settings({name: getattr(param, name) for name in PARAMS}, rows, self.mode)

    def _given(
        self,
        vocab_size: int,
        all_ids: np.ndarray | None,
        output: np.ndarray | None,
        prefill: Sequence[bool],
    ) -> list[GivenTokens]:
        padding = Padding(vocab_size, self.pad_token_id)

        def tokens(name: str, ids: np.ndarray | None, row: int) -> list[int] | None:
            return None if ids is None else padding.tokens(name, row, ids[row])

        return [
            GivenTokens(
                row, tokens("all_input_ids", all_ids, row), tokens("output_ids", output, row), bool(first)
            )
            for row, first in enumerate(prefill)
        ]

    def _sample_groups(self, logits: LogitRows, metadata: SamplingMetadata) -> SamplingOutput:
        """`sample` for `SamplingMetadata`."""
        check_lengths(len(logits), {"all_sequence_ids": metadata.all_sequence_ids}, "logits")
        siblings = metadata.siblings
        settings = row_settings(
            metadata.columns(), len(logits), self.mode, metadata.top_logprobs_array.tolist(), siblings > 1
        )
        given = self._given(
            logits.width,
            metadata.all_token_ids,
            metadata.output_token_ids,
            metadata.prefill_array.tolist(),
        )
        bitmask = metadata.mask(logits.width)
        expansion = metadata.expansion()
        sources = expansion.sources.tolist()
        parents = [
            with_seed(params, secrets.randbits(63)) if count > 1 and params.seed is None else params
            for params, count in zip(settings, siblings.tolist(), strict=True)
        ]
        drawn = [
            with_seed(parents[source], sibling_seed(parents[source].seed, number))
            if number
            else parents[source]
            for source, number in zip(sources, expansion.siblings, strict=True)
        ]
        if bitmask is not None:
            bitmask = bitmask[expansion.sources]
        self._join(expansion.sequence_ids, [given[i] for i in sources], drawn, logits.width, bitmask)
        rows = logits if len(sources) == len(logits) else _rows_at(logits, sources)
        result = self._cache.step(rows, expansion.sequence_ids, bitmask)
        self.errors = result.errors
        _log(self.errors)
        return SamplingOutput.of(metadata, expansion, result)

    def _join(
        self,
        request_ids: Sequence[int],
        given: Sequence[GivenTokens],
        settings: Sequence[SamplingParams] | None,
        vocab_size: int,
        bitmask: np.ndarray | None,
    ) -> list[HistoryRow]:
        """Update the requests of a batch to the data of the call, all or none; returns their rows."""
        padding = Padding(vocab_size, self.pad_token_id)
        rows: list[HistoryRow] = []
        for i, request_id in enumerate(request_ids):
            params = self._configured.get(request_id) if settings is None else settings[i]
            if request_id in self._cache and not given[i].is_prefill:
                cached = self._cache.row(request_id, vocab_size, params)
                rows.append(given[i].following(cached, padding))
                continue
            if params is None and not given[i].is_prefill:
                raise InconsistencyError(
                    f"request_ids has {request_id}, which is not cached: give sampling_param, or prefill it"
                )
            params = params or row_settings({}, 1, self.mode)[0]
            rows.append(given[i].new(params) if given[i].is_prefill else given[i].uncached(params))
        for request_id, row, tokens in zip(request_ids, rows, given, strict=True):
            self._configured.pop(request_id, None)
            if request_id in self._cache and not tokens.is_prefill:
                self._cache.follow(request_id, row, bitmask is not None)
            else:
                self._cache.begin(request_id, vocab_size, row, bitmask is not None)
        return rows

    def _values(
        self, logits: Any, rows: LogitRows, drawn: Sequence[HistoryRow], logprobs: LogprobsByMode
    ) -> Any:
        """`logits_or_logprobs` of `sample`."""
        values = np.full(len(rows), NO_LOGPROB, np.float32)
        greedy = [i for i, row in enumerate(drawn) if is_greedy(row.params)]
        if len(greedy) == len(rows):
            return None if self.mode == "documented" else like(logits, values, "float32")
        assert isinstance(logprobs, Logprobs | None)
        faultless = [i for i, error in enumerate(self.errors) if error is None]
        if logprobs is not None:
            values[faultless] = logprobs.logprobs[faultless, 0]
        best = [i for i in greedy if self.errors[i] is None]
        if self.mode == "observed":
            values[best] = 0.0
        elif best:
            values[best] = _best_logits(rows, [drawn[i] for i in best], best, self._backend)
        return like(logits, values, "float32")


def readable(logits: Any) -> LogitRows:
    """The rows of the logits; raises if there are none, or more than a batch may have."""
    rows = LogitRows(to_numpy(logits) if library_of(logits).__name__ == "mindspore" else logits, 1)
    if not 1 <= len(rows) <= MAX_ROWS:
        raise OutOfBoundsError(f"logits have {len(rows)} rows, allowed are 1 to {MAX_ROWS}")
    return rows


def _instance(name: str, value: Any, kind: type[_T]) -> _T | None:
    if value is None or isinstance(value, kind):
        return value
    raise UnsupportedTypeError(f"{name} of type {type(value).__name__} is not allowed: {kind.__name__}")


def _draw(
    rows: LogitRows, drawn: Sequence[HistoryRow], backend: str | Backend
) -> tuple[np.ndarray, LogprobsByMode, list[str | None]]:
    """One token for each of the rows, whose requests are not cached."""
    result = sample(
        rows,
        [row.params for row in drawn],
        prompt_token_ids=[row.prompt for row in drawn],
        output_token_ids=[row.output for row in drawn],
        positions=[row.position for row in drawn],
        backend=backend,
    )
    return result.token_ids, result.logprobs, result.errors


def _best_logits(
    rows: LogitRows, drawn: Sequence[HistoryRow], indices: Sequence[int], backend: str | Backend
) -> np.ndarray:
    """The greatest logit of the rows at `indices` after the penalties, float32."""
    processed = process_logits(
        _rows_at(rows, indices),
        [row.params for row in drawn],
        prompt_token_ids=[row.prompt for row in drawn],
        output_token_ids=[row.output for row in drawn],
        backend=backend,
    )
    best: np.ndarray = processed.max(axis=1)
    return best


def _rows_at(rows: LogitRows, indices: Sequence[int]) -> LogitRows:
    """The rows at `indices`."""
    array = rows.array[list(indices)]
    return LogitRows.from_bfloat16_bits(array, rows.width) if rows.bfloat16 else LogitRows(array, rows.width)


def _log(errors: Sequence[str | None]) -> None:
    for row, error in enumerate(errors):
        if error is not None:
            logger.error("row %d: %s", row, error)
