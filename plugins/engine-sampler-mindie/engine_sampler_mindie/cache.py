"""The requests that are cached from call to call: counts, seeds and positions, in schedulers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from engine_sampler import RequestLimits, SamplingParams, Scheduler, StepResult
from engine_sampler.arithmetic import LogitRows
from engine_sampler.contract import Backend

from .fields import InconsistencyError
from .histories import HistoryRow
from .settings import with_seed

_REQUEST_BYTES, _TOKEN_BYTES = 8192, 56
"""About what a request takes, and each of its tokens: measured with penalties, which take most."""

_MOST_EVICTED = 16_384
"""How many forgotten ids are remembered."""


class CallerMask:
    """A grammar matcher whose mask comes from the caller: the tokens allowed at the next position."""

    def __init__(self) -> None:
        self.words = np.zeros(0, np.int32)
        """int32 [ceil(vocab / 32)], bit 1 = allowed; set before every step."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = self.words

    def accept(self, token_id: int) -> bool:
        return True

    def rollback(self, n: int) -> None:
        """Nothing to undo: the caller sets the mask before every step."""

    def fork(self) -> CallerMask:
        return CallerMask()

    def is_accepting(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return False


class CachedRequest:
    """The state of a request after its last call.

    params  as given: without a seed if that was chosen at random.
    seed    of its draws; None before the first.
    round   the round of its last draw; −1 before the first.
    """

    __slots__ = ("_buffer", "_length", "failed", "mask", "params", "position", "prompt", "round", "seed",
                 "vocab_size")  # fmt: skip

    def __init__(self, vocab_size: int, row: HistoryRow, mask: CallerMask | None) -> None:
        self.vocab_size = vocab_size
        self.mask = mask
        self.failed = False
        self.round = -1
        self.seed: int | None = row.params.seed
        self.assign(row)

    @property
    def output(self) -> np.ndarray:
        """int64; a view that holds until the next change."""
        return self._buffer[: self._length]

    @property
    def row(self) -> HistoryRow:
        return HistoryRow(self.params, self.prompt, self.output, self.position)

    def assign(self, row: HistoryRow) -> None:
        """Take over a row."""
        self.params, self.position = row.params, row.position
        own = row.prompt.base is None and row.prompt.dtype == np.int64
        self.prompt = (
            row.prompt if own else row.prompt.astype(np.int64)
        )  # not the caller's, nor a whole batch's
        self._length = len(row.output)
        self._buffer = np.empty(2 * self._length + 16, np.int64)
        self._buffer[: self._length] = row.output

    @property
    def tokens(self) -> int:
        """How many tokens it has, prompt and output."""
        return len(self.prompt) + self._length

    def append(self, token_id: int) -> None:
        """Add a drawn token."""
        if self._length == len(self._buffer):
            self._buffer = np.concatenate((self._buffer, np.empty_like(self._buffer)))
        self._buffer[self._length] = token_id
        self._length += 1
        self.position += 1

    def retract(self, n: int) -> None:
        """Remove the last `n` drawn tokens."""
        self._length -= n
        self.position -= n


class RequestCache:
    """Requests by id, each in the scheduler of its vocabulary size.

    idle_rounds  a request is forgotten when this many rounds have ended since its last draw; None: never
                 for that.
    max_requests, max_bytes  the most requests, and about the most bytes, that are kept, those of one step
                 always; the longest idle are forgotten first.

    A round ends when a request draws again that has drawn in it, and with a step of first draws only.
    """

    def __init__(
        self,
        backend: str | Backend,
        num_threads: int | None,
        idle_rounds: int | None = None,
        max_requests: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._backend = backend
        self._num_threads = num_threads
        self._idle_rounds = idle_rounds
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._tokens = 0
        """How many tokens all requests have."""
        self._evicted: dict[int, None] = {}
        """Requests that were forgotten to save memory, the last ones last."""
        self._schedulers: dict[int, Scheduler] = {}
        self._requests: OrderedDict[int, CachedRequest] = OrderedDict()
        """The longest idle first."""
        self._round = 0

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._requests

    def __len__(self) -> int:
        return len(self._requests)

    def find(self, request_id: int, vocab_size: int) -> CachedRequest | None:
        """A request; None if it is not cached, or for logits of another width."""
        cached = self._requests.get(request_id)
        return cached if cached is not None and cached.vocab_size == vocab_size else None

    def was_evicted(self, request_id: int) -> bool:
        """Whether a request was lately forgotten although its caller did not say so."""
        return request_id in self._evicted

    def request(self, request_id: int) -> CachedRequest:
        """A cached request."""
        return self._requests[request_id]

    def row(
        self, request_id: int, vocab_size: int, params: SamplingParams | None, keep_seed: bool
    ) -> HistoryRow:
        """A request's cached row; `params` replace its settings.

        keep_seed  whether a seed that was given to it stays; otherwise it stays unless `params` have one.

        Raises InconsistencyError if its vocabulary has another size.
        """
        cached = self._requests[request_id]
        if cached.vocab_size != vocab_size:
            raise InconsistencyError(
                f"the logits are {vocab_size} wide; request {request_id} began with {cached.vocab_size}"
            )
        if params is None or params is cached.params:
            return cached.row
        seed = cached.params.seed
        if seed is not None and seed != params.seed and (keep_seed or params.seed is None):
            params = with_seed(params, seed)
        return replace(cached.row, params=params)

    def begin(self, request_id: int, vocab_size: int, row: HistoryRow, masked: bool) -> None:
        """Cache a new request; an earlier one with this id is forgotten."""
        scheduler = self._scheduler(vocab_size)
        self.forget([request_id])
        mask = CallerMask() if masked else None
        scheduler.add(
            row.params,
            cast("Sequence[int]", row.prompt),
            request_id=request_id,
            output_token_ids=cast("Sequence[int]", row.output),
            grammar=mask,
            position=row.position,
        )
        cached = self._requests[request_id] = CachedRequest(vocab_size, row, mask)
        self._tokens += cached.tokens

    def is_ready(self, request_id: int, row: HistoryRow, masked: bool) -> bool:
        """Whether a request can draw as it is, given its own tokens in `row`."""
        cached = self._requests[request_id]
        return row.params is cached.params and not cached.failed and masked == (cached.mask is not None)

    def follow(self, request_id: int, row: HistoryRow, masked: bool) -> None:
        """Update a cached request to `row`, at a cost proportional to the difference."""
        cached = self._requests[request_id]
        same_params = row.params is cached.params or row.params == cached.params
        same_start = same_params and (
            row.prompt is cached.prompt or np.array_equal(row.prompt, cached.prompt)
        )
        if not same_start or cached.failed or masked != (cached.mask is not None):
            seeded = row.params
            if seeded.seed is None and cached.seed is not None:
                seeded = with_seed(seeded, cached.seed)
            last_round = cached.round
            self.begin(request_id, cached.vocab_size, replace(row, params=seeded), masked)
            begun = self._requests[request_id]
            begun.params, begun.round = row.params, last_round
            return
        output = cached.output
        common = _common_length(row.output, output)
        if common < len(output) or common < len(row.output):
            scheduler = self._schedulers[cached.vocab_size]
            scheduler.rollback(request_id, len(output) - common)
            new = row.output[common:]
            scheduler.accept(request_id, cast("Sequence[int]", new))
            self._tokens += len(row.output) - len(output)
            cached.retract(len(output) - common)
            for token in new.tolist():
                cached.append(token)
            cached.params = row.params

    def rewind(self, request_id: int, n: int) -> None:
        """Take back the last `n` drawn tokens of a request."""
        cached = self._requests[request_id]
        self._schedulers[cached.vocab_size].rollback(request_id, n)
        cached.retract(n)
        self._tokens -= n

    def step(self, logits: LogitRows, request_ids: Sequence[int], bitmask: np.ndarray | None) -> StepResult:
        """Draw a token for each of the requests; `logits` has one row for each."""
        requests = [self._requests[request_id] for request_id in request_ids]
        if bitmask is not None:
            for cached, words in zip(requests, bitmask, strict=True):
                if cached.mask is not None:
                    cached.mask.words = words
        result = self._schedulers[logits.width].step(logits, request_ids)
        rounds = [cached.round for cached in requests]
        if self._round in rounds or max(rounds) < 0:
            self._round += 1
        now, move = self._round, self._requests.move_to_end
        for request_id, cached, token in zip(request_ids, requests, result.token_ids.tolist(), strict=True):
            cached.round = now
            move(request_id)
            if token >= 0:
                cached.append(token)
                self._tokens += 1
        for i, seed in enumerate(result.seeds):
            cached = requests[i]
            cached.seed = seed
            cached.failed = result.errors[i] is not None
        self._evict(len(requests))
        return result

    def forget(self, request_ids: Iterable[int]) -> None:
        """Remove requests; unknown ids are ignored."""
        for request_id in request_ids:
            cached = self._requests.pop(request_id, None)
            self._evicted.pop(request_id, None)
            if cached is not None:
                self._tokens -= cached.tokens
                self._schedulers[cached.vocab_size].remove(request_id)

    def _evict(self, stepped: int) -> None:
        """Forget the requests that are idle for too long, or too many, or too large."""
        most = len(self) if self._max_requests is None else max(self._max_requests, stepped)
        oldest = -1 if self._idle_rounds is None else self._round - self._idle_rounds
        while True:
            request_id, cached = next(iter(self._requests.items()))
            too_many = len(self) > most or (len(self) > stepped and self._exceeds_bytes())
            if not too_many and cached.round >= oldest:
                return
            self.forget([request_id])
            self._evicted[request_id] = None
            if len(self._evicted) > _MOST_EVICTED:
                del self._evicted[next(iter(self._evicted))]

    def _exceeds_bytes(self) -> bool:
        used = len(self) * _REQUEST_BYTES + self._tokens * _TOKEN_BYTES
        return self._max_bytes is not None and used > self._max_bytes

    def _scheduler(self, vocab_size: int) -> Scheduler:
        if vocab_size not in self._schedulers:
            self._schedulers[vocab_size] = Scheduler(
                vocab_size,
                backend=self._backend,
                num_threads=self._num_threads,
                limits=RequestLimits.none(),  # MindIE has admitted the requests
            )
        return self._schedulers[vocab_size]


def _common_length(one: np.ndarray, other: np.ndarray) -> int:
    """The length of the common prefix of two arrays."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length
