"""A small model that thinks, and requests put together by hand: what phases must equal."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine_sampler import Record, SamplingParams, Scheduler, Tokenizer
from engine_sampler.backends.choose import named_backend

PIECES = [
    b"a", b"b", b"c", b"d", b" ", b"\n", b"1", b"2", b"ab", b"bc", b"</", b"e", b"n", b"en", b"d>", b">",
    b"<", b">\n", b"\xc3", b"\xa9", b"ok", b"x", b"{", b"}", b"<call>", b"[", b"]", b"\xf0", b"\x9f", b"\x98",
]  # fmt: skip
START, END, OTHER, EOS = (len(PIECES) + i for i in range(4))
TOKENIZER = Tokenizer(
    [*PIECES, b"<think>", b"</think>", b"<other>", b"<eos>"],
    eos_token_ids=[EOS],
    special_token_ids=[START, END, OTHER, EOS],
)
VOCAB = len(TOKENIZER)
BACKENDS = ("numpy", "native")


def ids(*pieces: bytes) -> list[int]:
    """The tokens with these bytes."""
    return [TOKENIZER.token_bytes.index(piece) for piece in pieces]


def row(history: Sequence[int], likely: Sequence[int] = ()) -> np.ndarray:
    """The logits after a history, float32 [vocab], which depend on nothing else; `likely` tokens get more."""
    random = np.random.default_rng(zlib.crc32(np.array(history, np.int64).tobytes()))
    logits = random.normal(0, 2, VOCAB).astype(np.float32)
    logits[EOS] -= 3
    logits[list(likely)] += 2
    return logits


@dataclass
class Chat:
    """A scheduler and the prompts of its requests: the engine of the tests."""

    scheduler: Scheduler
    likely: Sequence[int] = ()
    prompts: dict[Any, list[int]] = field(default_factory=dict)

    @classmethod
    def with_backend(cls, backend: str, likely: Sequence[int] = (), **keywords: Any) -> Chat:
        tokenizer = keywords.pop("tokenizer", TOKENIZER)
        return cls(Scheduler(VOCAB, tokenizer, backend=named_backend(backend), **keywords), likely)  # type: ignore[arg-type]

    def add(self, prompt: Sequence[int] = (), output: Sequence[int] = (), **params: Any) -> Any:
        given = params.pop("params", None) or SamplingParams(**{"seed": 5, **params})
        request_id = self.scheduler.add(given, list(prompt), output_token_ids=list(output))
        self.prompts[request_id] = list(prompt)
        return request_id

    def history(self, request_id: Any) -> list[int]:
        return [*self.prompts[request_id], *self.scheduler.record(request_id).token_ids]

    def step(self, drafts: dict[Any, list[int]] | None = None) -> Any:
        """One step of all live requests, each with its drafts."""
        rows = []
        for request_id in self.scheduler.request_ids:
            history = self.history(request_id)
            draft = (drafts or {}).get(request_id, [])
            rows += [row([*history, *draft[:i]], self.likely) for i in range(len(draft) + 1)]
        return self.scheduler.step(np.array(rows, np.float32), draft_token_ids=drafts)

    def run(self, most: int = 60) -> None:
        """Steps until all have ended, at most so many."""
        for _ in range(most):
            if not self.scheduler.request_ids:
                return
            self.step()

    def record(self, request_id: Any) -> Record:
        return self.scheduler.record(request_id)


def outcome(record: Record) -> tuple[Any, ...]:
    """What two runs that are the same have in common."""
    return (
        record.token_ids,
        record.text,
        record.finish_reason,
        record.stop_reason,
        record.error,
        record.phase_tokens,
    )


@dataclass
class ByHand:
    """Thoughts and an answer without phases: a request for each, with other parameters.

    end, forced  the end marker, and what is put where the budget is spent.
    is_apart  whether the second request has the thoughts as a part of its prompt.
    """

    backend: str
    likely: Sequence[int]
    thinking: dict[str, Any]
    answer: dict[str, Any]
    budget: int | None
    start: list[int]
    end: list[int]
    forced: list[int]
    is_apart: bool = True

    def run(self, prompt: list[int], most: int, *, begins_inside: bool) -> tuple[list[int], str | None]:
        """The tokens, and why they end."""
        output: list[int] = []
        inside, begin = begins_inside, 0
        while len(output) < most:
            tokens, reason = self._phase(prompt, output, begin, most, inside)
            output += tokens
            if reason is not None:
                return output, reason
            inside = not inside
            begin = len(output)
        return output[:most], "length"

    def _phase(
        self, prompt: list[int], output: list[int], begin: int, most: int, inside: bool
    ) -> tuple[list[int], str | None]:
        """The tokens of a phase that begins after `output`, and why the request ends in it."""
        chat = Chat.with_backend(self.backend, self.likely)
        given = self.thinking if inside else self.answer
        moves = self.is_apart and not inside
        before = ([*prompt, *output], []) if moves else (prompt, output)
        request_id = chat.add(*before, **given)
        tokens: list[int] = []
        marker = self.end if inside else self.start
        while len(output) + len(tokens) < most:
            if inside and self.budget is not None and is_due(tokens, self.budget):
                beginnings = (n for n in range(len(marker) - 1, 0, -1) if tokens[-n:] == marker[:n])
                count = next(beginnings, 0)
                tokens += marker[count:] if count else self.forced
                return tokens, None
            tokens += chat.step().tokens(0)
            record = chat.record(request_id)
            if record.finish_reason is not None:
                return tokens, record.finish_reason
            if tokens[-len(marker) :] == marker:
                return tokens, None
        return tokens, "length"


def is_due(tokens: list[int], budget: int) -> bool:
    """Whether thoughts have had their budget, and end with a whole character unless they go on and on."""
    if not budget <= len(tokens) < budget + 3:
        return len(tokens) >= budget
    text = b"".join(b"?" if t in (START, END, OTHER, EOS) else TOKENIZER.token_bytes[t] for t in tokens[-3:])
    return not any(is_cut(text[-n:]) for n in range(1, min(4, len(text) + 1)))


def is_cut(data: bytes) -> bool:
    """Whether `data` is a character of UTF-8 that has not ended."""
    lead = data[0]
    size = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 0
    return len(data) < size and all(byte & 0xC0 == 0x80 for byte in data[1:])
