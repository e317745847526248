"""`StepResult`, the outcome of a step, and `BegunStep`, a step of which half is done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arithmetic import Logprobs
from .fields import copied, per_request, per_row
from .tensors import WithTensors

RequestId = Hashable
"""What names a request: any hashable value."""
StopReason = str | int | None


@dataclass(eq=False)
class StepResult(WithTensors):
    """The outcome of one step. It is equal to itself only: compare its parts.

    token_ids       int64 [rows], −1 where a row gave no token: a fault, a draft row after a mismatch or a
                    stop, or a postponed request. A request is postponed when its grammar or a sampler needs
                    more work than one step may do (`grammar.limits`). Nothing about it has changed, and it
                    has no finish reason: given the same logits again it continues as if not postponed.
    first_rows      int64 [requests], the first row of each request.
    logprobs        `Logprobs` over the rows; None if no request needs any. If a request needs several modes,
                    its `modes` has them all.
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

    def tokens(self, i: int) -> list[int]:
        """The tokens of request number i in this step: one, or several with drafts."""
        end = self.first_rows[i + 1] if i + 1 < len(self.first_rows) else len(self.token_ids)
        return [t for t in self.token_ids[self.first_rows[i] : end].tolist() if t >= 0]

    def copied(self) -> StepResult:
        """A result that can be changed without changing this one."""
        return copied(self)


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
