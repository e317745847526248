"""`Exchange`: the collectives of a process group, in which a rank that has failed still takes part."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from engine_sampler.for_backends import INTERRUPTIONS, text_of

from .errors import RankError

MOST_FACTS = 4
"""How many numbers `Exchange.agree` compares."""

Fill = Callable[[], Any]
"""Computes what a rank gives to a collective: a tensor, or numbers, of the shape that was announced."""


class Exchange:
    """Collectives of int64 on one group.

    Every collective announces its shape first and then computes what the rank gives. If that raises, the rank
    takes part with zeros and a status that says so, here and in all collectives until `settle`, which raises
    on every rank: no rank waits for one that has failed. The status is one more number in the same message. A
    rank that is gone altogether, or that fails in the collective itself, is torch.distributed's to report:
    its error, or its timeout, passes through.

    group   a process group of torch.distributed; None: the default one.
    rank, size  this process in it.
    device  where the messages lie: the CPU where the group has a backend for it, else the group's device.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.device = _device_of(group)
        self._failure: BaseException | None = None
        self._statuses: list[Tensor] = []

    def gather(self, shape: Sequence[int], fill: Fill) -> Tensor:
        """What every rank gives: int64 [ranks, *shape]."""
        sent = self._payload(shape, fill)
        received = sent.new_empty(self.size * len(sent))
        all_gather(received, sent, self.group)
        table = received.view(self.size, -1)
        self._statuses.append(table[:, -1].amax())
        return table[:, :-1].reshape(self.size, *shape)

    def settle(self) -> None:
        """Raise if a rank has failed since the last call: `RankError` with the reasons, on every rank. Where
        all have failed, each raises its own error, as one alone would; an interruption is raised where it has
        happened, because of the `RankError` of the others."""
        own, self._failure = self._failure, None
        statuses, self._statuses = self._statuses, []
        if not any(torch.stack(statuses).tolist()):
            if own is not None:
                raise own  # after the last collective
            return
        texts = self.texts("" if own is None else described(own))
        reasons = {rank: text for rank, text in enumerate(texts) if text}
        if own is not None and len(reasons) == self.size:
            raise own
        _raise_with(RankError(reasons), own)

    def agree(
        self,
        call: str,
        facts: Callable[[], Mapping[str, int]],
        describe: Callable[[], str],
        meet: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """Check that all ranks make the same call, that none has failed so far, and that up to `MOST_FACTS`
        facts, int64 each, are the same on all. Whatever the call, the message has the same size, so that a
        rank which makes another call than the others, or one alone, is told so.

        call      its name.
        describe  says this rank's facts in words, if they differ.
        meet      is called first with the digests of all ranks' calls.
        """
        self.begin_to_agree(call, facts).settle(describe, meet)

    def begin_to_agree(self, call: str, facts: Callable[[], Mapping[str, int]]) -> Agreement:
        """The first half of `agree`: the message is on its way while this rank goes on."""

        def told() -> list[int]:
            numbers = list(facts().values())
            return [digest(call), *numbers, *[0] * (MOST_FACTS - len(numbers))]

        sent = self._payload((1 + MOST_FACTS,), told)
        received = sent.new_empty(self.size * len(sent))
        return Agreement(self, call, sent, received, all_gather(received, sent, self.group, is_async=True))

    def _compare(
        self,
        call: str,
        table: Tensor,
        describe: Callable[[], str],
        meet: Callable[[Sequence[int]], None] | None,
    ) -> None:
        """The second half of `agree`, with the message of every rank, int64 [ranks, 2 + MOST_FACTS]."""
        self._statuses.append(table[:, -1].amax())
        rows = table[:, :-1].tolist()
        calls = {row[0] for row in rows if row[0]}
        if meet is not None:
            meet(list(calls))
        if len(calls) > 1:
            self._name_calls(call)
        self.settle()
        if all(row == rows[0] for row in rows):
            return
        texts = self.texts(describe())
        raise RankError(
            {
                rank: f"its {call} differs from that of rank 0: {texts[rank]}, and there {texts[0]}"
                for rank, row in enumerate(rows)
                if row != rows[0]
            }
        )

    def _name_calls(self, call: str) -> None:
        """Raise `RankError` with the calls of the ranks that make another one than most do."""
        own, self._failure = self._failure, None
        calls = self.texts(call)
        self._statuses = []
        usual = max(calls, key=calls.count)  # the first, if two are as common
        others = f"rank {calls.index(usual)} {usual}: every rank makes the same calls"
        reasons = {
            rank: f"it calls {other}, and {others}" for rank, other in enumerate(calls) if other != usual
        }
        _raise_with(RankError(reasons), own)

    def texts(self, text: str) -> list[str]:
        """The text of every rank, in two messages: how long, and what."""
        blob = text.encode("utf-8", "surrogatepass")
        lengths: list[int] = self.gather((1,), lambda: [len(blob)]).flatten().tolist()
        return [blob.decode("utf-8", "surrogatepass") for blob in self.blobs(blob, lengths)]

    def blobs(self, blob: bytes, lengths: Sequence[int]) -> list[bytes]:
        """The bytes of every rank, whose `lengths` all know, in one message."""
        words = -(-max(lengths) // 8)
        if not words:
            return [b""] * self.size
        gathered = self.gather((words,), lambda: words_of(blob, words))
        return [bytes_in(row, length) for row, length in zip(gathered, lengths, strict=True)]

    # --- inside ----------------------------------------------------------------------------------

    def _payload(self, shape: Sequence[int], fill: Fill) -> Tensor:
        """What this rank gives, flat, and its status."""
        count = torch.Size(shape).numel()
        payload = torch.zeros(count + 1, dtype=torch.int64, device=self.device)
        if self._failure is None:
            try:
                payload[:-1] = torch.as_tensor(fill(), dtype=torch.int64).reshape(count)
            except BaseException as error:
                self._failure = error
        if self._failure is not None:
            payload.zero_()
            payload[-1] = 1
        return payload


@dataclass(eq=False)
class Agreement:
    """A call of `Exchange.agree` whose message is on its way."""

    exchange: Exchange
    call: str
    sent: Tensor
    received: Tensor
    work: Any

    def settle(
        self, describe: Callable[[], str], meet: Callable[[Sequence[int]], None] | None = None
    ) -> None:
        """Wait for the message, and raise what `agree` raises."""
        if self.work is not None:
            self.work.wait()
        self.exchange._compare(self.call, self.received.view(self.exchange.size, -1), describe, meet)


def _raise_with(error: RankError, own: BaseException | None) -> NoReturn:
    """Raise `error` on a rank that has failed by `own`, if at all: an interruption itself."""
    if isinstance(own, INTERRUPTIONS):
        raise own from error
    raise error from own


def all_gather(
    received: Tensor, sent: Tensor, group: dist.ProcessGroup | None, *, is_async: bool = False
) -> Any:
    """The ranks' tensors, one after the other, under the name that this torch has for it. Returns what waits
    for them, if it `is_async`."""
    if hasattr(dist, "all_gather_single"):
        return dist.all_gather_single(received, sent, group=group, async_op=is_async)
    return dist.all_gather_into_tensor(received, sent, group=group, async_op=is_async)


def described(error: BaseException) -> str:
    """An exception in words."""
    return f"{type(error).__name__}: {text_of(error)}"


def words_of(blob: bytes, count: int) -> Tensor:
    """Bytes as int64 [count], padded with zeros."""
    return torch.frombuffer(bytearray(blob.ljust(8 * count, b"\0")), dtype=torch.int64)


def bytes_in(words: Tensor, length: int) -> bytes:
    """The first `length` bytes of int64 `words`."""
    return words.cpu().contiguous().numpy().tobytes()[:length]


def digest(*parts: str | bytes) -> int:
    """A number below 2^63 that stands for these parts."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(hashed.digest(), "little") >> 1


def _device_of(group: dist.ProcessGroup | None) -> torch.device:
    """Where a group takes messages from."""
    kinds = [entry.split(":")[0] for entry in str(dist.get_backend_config(group)).split(",")]
    if "cpu" in kinds or not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.device(kinds[0], torch.accelerator.current_device_index())
