"""`StepResult`, the outcome of a step, and `BegunStep`, a step of which half is done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arithmetic import GivenLogprobs, Logprobs
from ...base.errors import ParameterError, quoted
from ...base.plain_json import _PlainJson, integers
from .fields import copied, per_request, per_row
from .sampling_mask import SamplingMask
from .tensors import WithTensors

RequestId = Hashable
"""What names a request: any hashable value."""
StopReason = str | int | None


def _list(value: Any) -> list[Any]:
    """`value`, a list. Raises TypeError for anything else: a long text would be taken apart."""
    if not isinstance(value, list):
        raise TypeError(f"{quoted(value)} is no list")
    return value


@dataclass(eq=False)
class StepResult(_PlainJson, WithTensors):
    """The outcome of one step. It is equal to itself only: compare its parts.

    token_ids       int64 [rows], −1 where a row gave no token: a fault, a draft row after a mismatch or a
                    stop or beside the accepted path, or a postponed request. A request is postponed when its
                    grammar or a sampler needs more work than one step may do (`grammar.limits`). Nothing
                    about it has changed, and it has no finish reason: given the same logits again it
                    continues as if not postponed.
    first_rows      int64 [requests], the first row of each request.
    logprobs        `Logprobs` over the rows; None if no request needs any. If a request needs several modes,
                    its `modes` has them all.
    sampling_mask   `SamplingMask` over the rows: what each token was drawn from; None if no request has
                    `return_sampling_mask`.
    given_logprobs  `GivenLogprobs` over the rows: of the tokens that `logprob_token_ids` names; None if no
                    request names any.
    The lists have one entry per request, in row order:
    request_ids     the requests.
    text            the part of its text that became certain, None without a tokenizer.
    finish_reasons  stop, length, repetition, abort or error; None while it continues.
    stop_reasons    the stop string, stop token id or criterion; None for EOS.
    errors          why it ended with `error`, else None.
    seeds           the seed of its draws, given or chosen at random.
    parent_ids      the request whose cache it continues: itself, except under beam search.

    deltas          what its parser has read since the last step, events as `MessageParser.feed` gives them;
                    [] for a request without one. None if no request of the step has a parser. Where
                    captures of its grammar take more than those of all answers of a step may, they come from
                    another `MessageParser.finish`.

    skipped         the numbers of the requests that had left before the step: removed, or ended by `accept`.
                    Their rows were not read; the finish reason is `abort`, or theirs.
    phase_tokens    how many tokens of its output each phase of a request has had, by the phase's name: in a
                    step in which a request with phases has come into another one, or has ended; else None.
                    [] if that holds for no request of the step.
    rewinds         how many of the newest tokens of earlier steps are taken back, because a ban
                    (`banned_strings`, `banned_regex`) has come; [] for none. The engine cuts them off the
                    request's tokens and cache, and its next row follows the last token that is left. A token
                    of this step that is taken back is −1 in `token_ids`.
    withheld        how many of a request's newest tokens may still be taken back; [] if none may. Their text
                    is not in `text` yet; a server that sends tokens or their logprobs holds these back, too.
    token_ids_on_device  `token_ids` as an int64 tensor on the device of the logits, for the next forward
                    pass; None if the backend has none, or if a token that it has drawn does not count. What
                    `tensors` returns is there in any case.
    """

    token_ids: np.ndarray = field(metadata=per_row(-1))
    first_rows: np.ndarray
    request_ids: list[RequestId] = field(metadata=per_request(is_id=True))
    text: list[str | None] = field(metadata=per_request())
    finish_reasons: list[str | None] = field(metadata=per_request(attribute="finish_reason", removed="abort"))
    stop_reasons: list[StopReason] = field(metadata=per_request(attribute="stop_reason"))
    errors: list[str | None] = field(metadata=per_request(attribute="error"))
    seeds: list[int] = field(metadata=per_request(0, attribute="seed", removed=0))
    parent_ids: list[RequestId] = field(metadata=per_request(is_id=True))
    logprobs: Logprobs | None = None
    skipped: Sequence[int] = ()
    phase_tokens: list[dict[str, int] | None] = field(metadata=per_request(), default_factory=list)
    token_ids_on_device: Any = None
    rewinds: list[int] = field(metadata=per_request(0), default_factory=list)
    withheld: list[int] = field(metadata=per_request(0), default_factory=list)
    deltas: list[list[Any]] | None = field(metadata=per_request([]), default=None)
    sampling_mask: SamplingMask | None = None
    given_logprobs: GivenLogprobs | None = None

    _READERS = {
        **dict.fromkeys(("token_ids", "first_rows"), integers),
        "logprobs": Logprobs.from_dict,
        "deltas": lambda deltas: [
            [tuple(_list(event)) for event in _list(events)] for events in _list(deltas)
        ],
        "sampling_mask": SamplingMask.from_dict,
        "given_logprobs": GivenLogprobs.from_dict,
    }
    _LEFT_OUT = ("token_ids_on_device",)

    def tokens(self, i: int) -> list[int]:
        """The tokens of request number i in this step: one, or several with drafts."""
        return [t for t in self._rows(i).tolist() if t >= 0]

    def accepted_rows(self, i: int) -> list[int]:
        """The rows in which request number i drew these tokens, counted from its first row: 0, then 1 + j for
        each draft j that was right, which are those of one path if it had a tree. The cache of these rows is
        the request's; its last token is not in it yet."""
        rows: list[int] = np.flatnonzero(self._rows(i) >= 0).tolist()
        return rows

    def _rows(self, i: int) -> np.ndarray:
        """`token_ids` in the rows of request number i."""
        end = self.first_rows[i + 1] if i + 1 < len(self.first_rows) else len(self.token_ids)
        return self.token_ids[self.first_rows[i] : end]

    def to_dict(self) -> dict[str, Any]:
        """As JSON, which `from_dict` reads with the same bits, events of parsers as tuples: all but
        `token_ids_on_device`. Raises `ParameterError` for ids of requests, and for events, that JSON does not
        have."""
        check_plain(self.request_ids)
        return super().to_dict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "token_ids_on_device": None}  # which need not be there where it is read

    def copied(self) -> StepResult:
        """A result that can be changed without changing this one."""
        return copied(self)


def check_plain(request_ids: Iterable[RequestId]) -> None:
    """Raise `ParameterError` for an id that JSON does not have, or would give back as another."""
    for request_id in request_ids:
        if not isinstance(request_id, (int, str)):
            raise ParameterError(
                f"request_id={quoted(request_id)} cannot be written as JSON: an integer or a text"
            )


class BegunStep:
    """What `Scheduler.begin` returns; `finish` gives the result of the step, once.

    token_ids_on_device  int64 [rows] on the device of the logits, in the order of its stream: the tokens of
                         all rows as they will be there, anything for a faulty row; None if the backend leaves
                         none there. One that a grammar refuses, that a ban takes back, or in whose place a
                         phase puts another, is among them: `StepResult.token_ids_on_device` is None then.

    A begun step that is dropped has not been done, and so has one whose `finish` is interrupted: the logits
    can be given to another.
    """

    _finish: Callable[[float], StepResult] | None = None

    def __init__(
        self,
        token_ids_on_device: Any,
        is_done: Callable[[], bool],
        finish: Callable[[float], StepResult],
        drop: Callable[[], None],
    ) -> None:
        self.token_ids_on_device = token_ids_on_device
        self._is_done: Callable[[], bool] | None = is_done
        self.seconds = 0.0
        self._drop = drop
        self._finish = finish

    @property
    def is_done(self) -> bool:
        """Whether `finish` would not wait for the device, as far as the backend can tell."""
        return self._is_done is None or self._is_done()

    def finish(self) -> StepResult:
        """Wait for the tokens, and do the rest of the step. Raises RuntimeError if that is done or given up,
        else what `Scheduler.step` raises."""
        if self._finish is None:
            raise RuntimeError("the step is over: it can be finished once")
        result = self._finish(self.seconds)
        self._finish = self._is_done = None
        return result

    def give_up(self) -> None:
        """Do not finish the step: it has not been done. What its device still does is waited for."""
        if self._finish is not None:
            self._finish = self._is_done = None
            self._drop()

    def __del__(self) -> None:
        self.give_up()
