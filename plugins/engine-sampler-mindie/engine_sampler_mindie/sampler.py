"""`Sampler`: MindIE's `sample`, implemented with this library's scheduler."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from engine_sampler import SamplingParams, StepResult
from engine_sampler.arithmetic import LogitRows
from engine_sampler.contract import Backend
from engine_sampler.for_bridges import entries_of, integers_of, library_of, like, named_backend, to_numpy

from .batches import JoinedBatch, ids_key, join_requests, join_rows
from .cache import CachedRequest, RequestCache
from .config import SamplerConfig
from .fields import (
    MAX_ROWS,
    PARAMS,
    InconsistencyError,
    OutOfBoundsError,
    UnsupportedTypeError,
    check_flag,
    check_lengths,
    check_unmasked,
    host_array,
    ids_field,
)
from .groups import Groups, given_tokens
from .growing import GrowingIds
from .histories import GivenTokens, Padding
from .inputs import SamplingData, SamplingParam
from .metadata import SamplingMetadata
from .output import SamplingOutput
from .settings import MODES, default_settings, pair_settings
from .values import Scores

logger = logging.getLogger("engine_sampler")

DATA = ("request_ids", "all_input_ids", "output_ids")

_MOST_REQUESTS = 4096

_T = TypeVar("_T")


class Sampler:
    """Draws the next tokens of a batch, as MindIE's `sample` does.

    sampler_config  as MindIE's generator makes its sampler: a call is then one of the newer interface, with
                  `SamplingMetadata` or without anything, and returns a `SamplingOutput`.
    mode          "documented": a row samples if `do_sample` is True or if a sampling setting is given for
                  it: a temperature, top_k or top_p that is not neutral, or a seed (−1 is none). Top_p keeps
                  the fewest tokens whose probabilities reach p.
                  "observed": as MindIE's implementation does, only `do_sample` makes a row sample, and
                  top_p keeps the fewest tokens whose probabilities exceed p.
                  A temperature of 0 is greedy in both.
    pad_token_id  the token with which the callers pad rows of ids, from −1 to the width of the logits; −1
                  and that width are padding in any case.
    eos_token_ids  the tokens that end a text. One of them is never padding, even as pad_token_id: a row may
                  end with it. Callers whose pad token is an EOS token pad with −1 or the width, as
                  MindIE's document recommends.
    logprobs      False: without logprobs, which cost more than the draw; `logits_or_logprobs` is None, and
                  a `SamplingMetadata` has only the top logprobs that it asks for.
    count_prompts  False: the first token of a request is drawn at position 0, whatever the length of its
                  prompt. True: at the position after the prompt, as a `Scheduler` does, so that the same
                  seed draws the same tokens there; a request that samples with a seed begins with
                  `all_input_ids` then.
    return_tensors  return arrays of the logits' library, on its device, instead of NumPy arrays.
    idle_rounds   a request is forgotten when the other requests have drawn this many tokens each since
                  its last one. So it is after this many calls in which all rows draw their first token.
                  None: only for `cache_bytes`.
    cache_bytes   requests are kept until `clear_cache`, but no more than about this many bytes of them, and
                  at most 4096 (those of one call always): the longest idle are forgotten first. A token
                  takes about 56 bytes. None: only the number counts.
    backend, num_threads  as in `Scheduler`; `num_threads` of a `sampler_config` is taken up to the number of
                  processors.

    Requests with ids are cached from their first call on: tokens, seed and position. A call may repeat
    tokens and settings or omit them. Given values take effect at once, a changed seed included; if a call
    takes tokens back, the cached state is rolled back as well. A prefill starts a request from scratch,
    unless `all_input_ids` repeat its cached prompt and output: then it continues.

    Rows without ids draw at the position that their tokens tell: the length of `output_ids`, or else, and
    with `count_prompts` always, of `all_input_ids`. Without either, their position is the number of such
    calls before, so that a seed does not repeat its draw.
    """

    def __init__(
        self,
        sampler_config: SamplerConfig | None = None,
        *,
        mode: str = "documented",
        pad_token_id: int | None = None,
        eos_token_ids: Sequence[int] = (),
        logprobs: bool = True,
        return_tensors: bool = False,
        count_prompts: bool = False,
        idle_rounds: int | None = None,
        cache_bytes: int | None = 2**29,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
    ) -> None:
        config = _instance("sampler_config", sampler_config, SamplerConfig)
        if not isinstance(mode, str) or mode not in MODES:
            raise OutOfBoundsError(f"mode={mode!r} is not allowed: one of {', '.join(MODES)}")
        _check_integer("pad_token_id", pad_token_id, -1, "a token id from -1 on, or None")
        _check_integer("idle_rounds", idle_rounds, 1, "an integer of at least 1, or None")
        _check_integer("cache_bytes", cache_bytes, 0, "a number of bytes, or None")
        check_flag("logprobs", logprobs)
        check_flag("return_tensors", return_tensors)
        check_flag("count_prompts", count_prompts)
        if config is not None and num_threads is None:
            _check_integer("num_threads", config.num_threads, 1, "an integer of at least 1, or None")
            num_threads = config.num_threads and min(config.num_threads, os.cpu_count() or 1)
        _check_integer("num_threads", num_threads, 1, "an integer of at least 1, or None")
        named_backend(backend)
        self.sampler_config = config
        self.mode = mode
        self.pad_token_id = pad_token_id
        self.eos_token_ids = _eos_token_ids("eos_token_ids", eos_token_ids)
        self.logprobs = logprobs
        self.return_tensors = return_tensors
        self.count_prompts = count_prompts
        self.errors: list[str | None] = []
        """The reasons why rows of the last call have no token; None for the others."""
        self._cache = RequestCache(backend, num_threads, idle_rounds, _MOST_REQUESTS, cache_bytes)
        self._rows = RequestCache(backend, num_threads, max_bytes=cache_bytes)
        """The rows of calls without request ids, by number."""
        self._calls = 0
        """How many calls had neither request ids nor tokens."""
        self._batch: JoinedBatch | None = None
        """The batch of the last call, if the next one may repeat it."""
        self._param: _KnownParam | None = None
        self._configured: dict[int, SamplingParams] = {}
        self._groups = Groups(self._cache, mode, logprobs, backend, self._configured, count_prompts)

    def initialize(self, device: Any, eos_token_id: Any) -> None:
        """Take the tokens that end a text: an id, or a list of ids. Lists of several ids among them, which
        together end a text, end no beam. `device` is accepted for MindIE's callers: a call reads its
        logits where they lie."""
        allowed = "a token id, or a list of them"
        one = isinstance(eos_token_id, (int, np.integer))
        ids = [eos_token_id] if one else entries_of("eos_token_id", eos_token_id, allowed)
        ends = [entry if isinstance(entry, (list, tuple)) else [entry] for entry in ids]
        self.eos_token_ids = _eos_token_ids("eos_token_id", [end[0] for end in ends if len(end) == 1])

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
                            "observed" −9999 in all rows. For a faulty row: −9999. Without `logprobs` None.

        Both are NumPy arrays, or with `return_tensors` arrays of the library of `logits`, on its device
        (NumPy, torch, MindSpore).
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
            output = self._sample_groups(readable(logits), metadata)
            return output.moved_to(logits) if self.return_tensors else output
        data = _instance("sampling_data", sampling_data, SamplingData) or SamplingData()
        param = _instance("sampling_param", sampling_param, SamplingParam)
        next_tokens, values = self._sample_pair(readable(logits), data, param)
        if self.return_tensors:
            values = None if values is None else like(logits, values, "float32")
            return like(logits, next_tokens, "int64"), values
        return next_tokens, values

    def __call__(
        self,
        logits: Any,
        sampling_metadata: SamplingData | SamplingMetadata | None = None,
        sampling_param: SamplingParam | None = None,
    ) -> tuple[Any, Any] | SamplingOutput:
        """`sample` in the order that the method body in MindIE's document expects:
        (logits_or_logprobs, next_tokens); a `SamplingOutput` with `SamplingMetadata`, and from a sampler made
        with a `sampler_config` also without anything."""
        if self.sampler_config is not None and sampling_metadata is None and sampling_param is None:
            tokens, _ = self._sample_pair(readable(logits), SamplingData(), None)
            output = SamplingOutput.without_metadata(tokens)
            return output.moved_to(logits) if self.return_tensors else output
        result = self.sample(logits, sampling_metadata, sampling_param)
        return result if isinstance(result, SamplingOutput) else result[::-1]

    def configure(
        self,
        sampling_metadata: SamplingData | SamplingMetadata | None = None,
        sampling_param: SamplingParam | None = None,
        *,
        sampling_data: SamplingData | None = None,
    ) -> None:
        """Store settings for requests whose first token is drawn elsewhere, until they are drawn here.

        With `SamplingMetadata` alone: of its sequences, siblings included; their next call says the rest, and
        their seeds hold. With `SamplingData` that has `request_ids`, and `SamplingParam`: of these requests,
        for their next call without `sampling_param`. Raises `ValidationError` before anything changes.
        """
        if isinstance(sampling_metadata, SamplingMetadata) and sampling_param is None:
            settings = self._groups.configure(sampling_metadata)
        else:
            data = _instance(
                "sampling_data", sampling_metadata if sampling_data is None else sampling_data, SamplingData
            )
            param = _instance("sampling_param", sampling_param, SamplingParam)
            if data is None or param is None or data.request_ids is None:
                raise InconsistencyError(
                    "configure needs sampling_data with request_ids, and sampling_param; or SamplingMetadata"
                )
            rows = self._settings(param, len(data.request_ids))
            settings = dict(zip(data.request_ids.tolist(), rows, strict=True))
        self._groups.look_again()
        self._configured.update(settings)
        while len(self._configured) > max(_MOST_REQUESTS, len(settings)):
            del self._configured[next(iter(self._configured))]

    def clear_cache(self, sequence_ids: Any) -> None:
        """Forget requests; unknown ids are ignored.

        sequence_ids  int [requests], their ids.
        """
        ids = host_array("sequence_ids", sequence_ids, "iu", "int")
        if not ids.size:
            return
        forgotten = [] if (checked := ids_field("sequence_ids").check(ids)) is None else checked.tolist()
        self._batch = None
        self._cache.forget(forgotten)
        self._groups.forget(forgotten)
        for request_id in forgotten:
            self._configured.pop(request_id, None)

    # --- implementation --------------------------------------------------------------------------

    def _settings(self, param: SamplingParam, rows: int) -> list[SamplingParams]:
        """The settings of each row; the same list while calls repeat their values."""
        known = self._param
        if known is not None and len(known.settings) == rows and param.equals(known.param):
            return known.settings
        columns = {name: getattr(param, name) for name in PARAMS}
        settings = pair_settings(columns, rows, self.mode, self.logprobs)
        self._param = _KnownParam(param, settings)
        return settings

    def _sample_pair(
        self, logits: LogitRows, data: SamplingData, param: SamplingParam | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """`sample` for `SamplingData` and `SamplingParam`."""
        check_lengths(len(logits), {name: getattr(data, name) for name in DATA}, "logits")
        padding = self._padding(logits.width)
        without_ids = data.request_ids is None
        if param is None and without_ids:
            param = _GREEDY
        settings = None if param is None else self._settings(param, len(logits))
        batch, cache = self._batch, self._rows if without_ids else self._cache
        ids, key = (data.all_input_ids, data.output_ids), ids_key(data.request_ids)
        has_tokens = any(array is not None for array in ids)
        steady = (has_tokens or data.is_prefill) if without_ids else not data.is_prefill
        if batch is None or not (
            steady
            and not self._configured
            and batch.goes_on(key, logits.width, settings, ids, by_id=not without_ids)
        ):
            batch = self._joined(data, key, settings, padding)
        self._calls += without_ids and not has_tokens
        result = cache.step(logits, batch.ids, None)
        self._note_errors(result.errors)
        lasts = batch.lasts(result) and not (without_ids and _counts_output(param, data))
        self._batch = batch if lasts else None
        return result.token_ids, self._values(logits, batch, result) if self.logprobs else None

    def _values(self, logits: LogitRows, batch: JoinedBatch, result: StepResult) -> np.ndarray | None:
        """`logits_or_logprobs` of `sample`."""
        if batch.scores is None:
            known = self._param
            if known is None or batch.settings is not known.settings:
                known = _KnownParam(None, [request.params for request in batch.requests])
            if known.scores is None:
                known.scores = Scores(known.settings, self.mode == "observed")
            batch.scores = known.scores
        if batch.scores.all_greedy and self.mode == "documented":
            return None
        return batch.scores.of(logits, result, batch.requests)

    def _joined(
        self, data: SamplingData, key: bytes, settings: list[SamplingParams] | None, padding: Padding
    ) -> JoinedBatch:
        """The batch of a call whose requests are brought up to its data."""
        self._batch = None
        self._groups.look_again()
        all_ids = padding.read("all_input_ids", data.all_input_ids)
        output = padding.read("output_ids", data.output_ids)
        if data.request_ids is None:
            assert settings is not None
            histories = given_tokens(all_ids, output, [data.is_prefill] * len(settings))
            ids = list(range(len(settings)))
            requests = join_rows(
                self._rows, histories, settings, padding.vocab_size, self._calls, self.count_prompts
            )
        else:
            ids = data.request_ids.tolist()
            histories = given_tokens(all_ids, output, [data.is_prefill] * len(ids))
            requests = self._join(ids, histories, settings, padding)
        growing = GrowingIds((all_ids, output), padding)
        return JoinedBatch(ids, key, padding.vocab_size, settings, requests, growing)

    def _join(
        self,
        ids: list[int],
        histories: Sequence[GivenTokens],
        settings: Sequence[SamplingParams] | None,
        padding: Padding,
    ) -> list[CachedRequest]:
        """`join_requests` with the settings of the call, or else those configured ahead."""
        own = [self._configured.get(i) for i in ids] if settings is None else settings
        default = default_settings(self.mode, self.logprobs)
        requests = join_requests(
            self._cache,
            ids,
            histories,
            own,
            default,
            padding,
            masked=False,
            keep_seeds=False,
            count_prompts=self.count_prompts,
        )
        for request_id in ids:
            self._configured.pop(request_id, None)
        return requests

    def _sample_groups(self, logits: LogitRows, metadata: SamplingMetadata) -> SamplingOutput:
        """`sample` for `SamplingMetadata`."""
        self._batch = None
        output, errors = self._groups.draw(logits, metadata, self._padding(logits.width), self.eos_token_ids)
        self._note_errors(errors)
        return output

    def _padding(self, vocab_size: int) -> Padding:
        """What is padding in rows of ids; raises OutOfBoundsError for a pad token beyond the vocabulary."""
        pad = self.pad_token_id
        if pad is not None and pad > vocab_size:
            raise OutOfBoundsError(f"pad_token_id={pad} is not allowed: -1 to {vocab_size}, or None")
        return Padding(vocab_size, None if pad in self.eos_token_ids else pad)

    def _note_errors(self, errors: list[str | None]) -> None:
        self.errors = errors
        for row, error in enumerate(self.errors):
            if error is not None:
                logger.error("row %d: %s", row, error)


@dataclass
class _KnownParam:
    """The settings that the last `SamplingParam` stands for, and what they score once that is needed."""

    param: SamplingParam | None
    settings: list[SamplingParams]
    scores: Scores | None = None


_GREEDY = SamplingParam()


def _check_integer(name: str, value: Any, low: int, allowed: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise UnsupportedTypeError(f"{name}={value!r} is not allowed: {allowed}")
    if value < low:
        raise OutOfBoundsError(f"{name}={value!r} is not allowed: {allowed}")


def _counts_output(param: SamplingParam | None, data: SamplingData) -> bool:
    """Whether a penalty counts the output although the call does not tell it from the prompt."""
    if param is None or data.output_ids is not None:
        return False
    counting = (param.frequency_penalty, param.presence_penalty)
    return any(column is not None and bool(column.any()) for column in counting)


def _eos_token_ids(name: str, ids: Any) -> tuple[int, ...]:
    """The checked token ids that end a text."""
    checked = tuple(integers_of(name, ids))
    for token_id in checked:
        _check_integer(name, token_id, 0, "token ids from 0 on")
    return checked


def readable(logits: Any) -> LogitRows:
    """The rows of the logits; raises if there are none, or more than a batch may have."""
    check_unmasked("logits", logits)
    if str(getattr(logits, "device", "")) == "meta":
        raise UnsupportedTypeError("logits are on the device meta, where tensors have no values")
    rows = LogitRows(to_numpy(logits) if library_of(logits).__name__ == "mindspore" else logits, 1)
    if not 1 <= len(rows) <= MAX_ROWS:
        raise OutOfBoundsError(f"logits have {len(rows)} rows, allowed are 1 to {MAX_ROWS}")
    return rows


def _instance(name: str, value: Any, kind: type[_T]) -> _T | None:
    if value is None or isinstance(value, kind):
        return value
    raise UnsupportedTypeError(f"{name} of type {type(value).__name__} is not allowed: {kind.__name__}")
