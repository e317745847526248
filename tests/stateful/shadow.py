"""The expected state of a request, computed without the scheduler from its tokens alone."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine_sampler import Record
from engine_sampler.contract import Vocabulary

from .plugins import Failing, Reader, Tally
from .workload import PATTERNS, PIECES, SPECIAL, VOCAB, Order, model_row

Ending = tuple[str, Any, int]
"""finish_reason, stop_reason, and how many bytes of the text remain."""

Found = tuple[str, Any, int | None, int]
"""An `Ending` (None: all bytes remain), and after how many tokens it counts."""

TOLERANCE = 1e-5
"""The tolerance of logprobs."""


@dataclass(frozen=True)
class Token:
    """A token of an output: the seed it was drawn with, None if it was chosen elsewhere.

    given     whether the request began with it.
    logprobs  by mode (token ids, logprobs, rank), as the step reported them.
    details   the row of its sampling mask and the logprobs of named tokens, as the step reported them.
    """

    id: int
    seed: int | None = None
    given: bool = False
    logprobs: dict[str, Any] = field(default_factory=dict)
    details: Any = None


@dataclass
class Shadow:
    """The expected state of one request.

    seed      the seed of its next draw.
    sent      how many of its tokens are in texts that steps returned; `streamed` is their concatenation.
    joined    whether these must join to its text: no rollback has undone sent tokens.
    cause     what ended it, if that left no token: ("row", the row), ("accept", the token),
              ("rollback", the tokens), ("prepare",) or ("forced",).
    """

    id: Any
    order: Order
    seed: int
    vocabulary: Vocabulary
    max_model_len: int | None
    tokens: list[Token] = field(default_factory=list)
    sent: int = 0
    streamed: str = ""
    joined: bool = True
    cause: tuple[Any, ...] = ()
    record: Record | None = None
    siblings: tuple[Any, ...] = ()

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def history(self, k: int | None = None) -> list[int]:
        return [*self.order.prompt, *self.ids[:k]]

    def next_row(self, drafts: Sequence[int] = ()) -> np.ndarray:
        """The model's logits after the history and these drafts."""
        return model_row([*self.history(), *drafts])

    def fork(self, request_id: Any, seed: int | None) -> Shadow:
        child = copy.copy(self)
        child.id, child.tokens = request_id, self.tokens.copy()
        child.seed = self.seed if seed is None else seed
        return child

    def rollback(self, n: int) -> None:
        if n:
            del self.tokens[-n:]
        k = len(self.tokens)
        if self.sent > k:
            self.sent = k
            self.joined = False

    @property
    def can_resume(self) -> bool:
        """Whether a request that is given this output continues like this one."""
        return not (self.order.learns and any(token.given for token in self.tokens))

    @property
    def may_fail(self) -> bool:
        """Whether it has parts that may fail at a token."""
        return self.order.grammar is not None or self.order.params.get("weary", 0.0) > 1

    def raw_logprob(self, i: int) -> float:
        """The raw logprob of output token `i` under the model; 0 if it was chosen elsewhere."""
        return float(self._logprobs(i)[self.tokens[i].id]) if self._is_drawn(i) else 0.0

    def _is_drawn(self, i: int) -> bool:
        return self.tokens[i].seed is not None and not self.tokens[i].given

    def _logprobs(self, i: int) -> np.ndarray:
        row: np.ndarray = model_row(self.history(i)).astype(np.float64)
        return row - np.log(np.exp(row).sum())

    def _is_uncertain(self, k: int) -> bool:
        """Whether token k completes a window of tokens whose model is uncertain."""
        params = self.order.params
        drawn = [i for i in range(k) if self._is_drawn(i)]
        if not params.deepconf_threshold or len(drawn) < params.deepconf_window_size or drawn[-1] != k - 1:
            return False
        likeliest = [np.sort(self._logprobs(i))[-20:] for i in drawn[-params.deepconf_window_size :]]
        return -float(np.mean(likeliest)) < params.deepconf_threshold

    # --- text ------------------------------------------------------------------------------------

    @property
    def _ends_of_text(self) -> list[tuple[str, list[bytes]]]:
        """The strings that end the text: (stop_reason, its texts), in the order of the parameters."""
        params = self.order.params
        strings = [(stop, [stop.encode()]) for stop in params.stop]
        return strings + [(p, [text.encode() for text in PATTERNS[p]]) for p in params.stop_regex]

    def data(self, k: int) -> bytes:
        """The bytes of the first k tokens."""
        tokenizer, skips = self.vocabulary.need_tokenizer("text"), self.order.params.skip_special_tokens
        return b"".join(tokenizer.text_bytes(t, skips) for t in self.ids[:k])

    def certain(self, k: int) -> str:
        """The text that is certain after k tokens, while the request continues."""
        data = self.data(k)
        waiting = {tail for tail in _tails(data, 3) if tail in unfinished_characters()}
        if not self.order.params.include_stop_str_in_output:
            beginnings = {t[:n] for _, texts in self._ends_of_text for t in texts for n in range(1, len(t))}
            waiting |= {tail for tail in _tails(data, 12) if tail in beginnings}
        return _decoded(data[: len(data) - max(map(len, waiting), default=0)])

    def _end_of_text(self, k: int) -> Ending | None:
        """The first end of the text that is complete with token k."""
        data, before = self.data(k), len(self.data(k - 1))
        if self.ids[k - 1] == SPECIAL and self.order.params.skip_special_tokens:
            name = PIECES[SPECIAL].decode()  # which is not in the text, but ends it
            return ("stop", name, len(data)) if name in self.order.params.stop else None
        for end in range(before + 1, len(data) + 1):
            for reason, texts in self._ends_of_text:
                lengths = [len(text) for text in texts if data[:end].endswith(text)]
                if lengths:
                    stays = self.order.params.include_stop_str_in_output
                    return "stop", reason, end if stays else end - max(lengths)
        return None

    # --- the end ---------------------------------------------------------------------------------

    def ending(self, k: int) -> Ending | None:
        """How the request must end with its k-th token, if it must."""
        everything = len(self.data(k))
        for finish, reason, kept, waits in self._endings(k):
            if k > waits:
                return finish, reason, everything if kept is None else kept
        return None

    def _endings(self, k: int) -> Iterator[Found]:
        """All endings at token k, the decisive one first."""
        params, ids, token = self.order.params, self.ids[:k], self.ids[k - 1]
        if "failing" in self.order.criteria and token in Failing.at:
            yield "error", None, None, 0
        if math.exp(self.raw_logprob(k - 1)) < params.assistant_confidence_threshold:
            yield "stop", "confidence", None, params.min_tokens - 1
        if self._is_uncertain(k):
            yield "stop", "deepconf", None, params.min_tokens - 1
        if token in self.vocabulary.eos_token_ids and not params.ignore_eos:
            yield "stop", None, None, 0
        if token in params.stop_token_ids:
            yield "stop", token, None if params.include_stop_str_in_output else len(self.data(k - 1)), 0
        for name in self.order.criteria:
            if name == "tally" and Tally().ends(ids):
                yield "stop", name, None, 0
            if name == "reader" and Reader().reads(self.certain(k)):
                yield "stop", name, None, params.min_tokens - 1
        if (found := self._end_of_text(k)) is not None:
            yield *found, params.min_tokens
        if self._grammar_ends(ids):
            yield "stop", None, None, 0
        yield from self._limits(k)

    def _limits(self, k: int) -> Iterator[Found]:
        params, prompt = self.order.params, len(self.order.prompt)
        if params.max_length is not None and k >= max(1, params.max_length - prompt):
            yield "length", "max_length", None, 0
        if params.max_tokens is not None and k >= params.max_tokens:
            yield "length", "max_tokens", None, 0
        if params.repetition_detection is not None and _repeats(self.ids[:k], *params.repetition_detection):
            yield "repetition", "repetition_detected", None, params.min_tokens - 1
        if self.max_model_len is not None and prompt + k >= self.max_model_len:
            yield "length", "max_model_len", None, 0

    def _grammar_ends(self, ids: Sequence[int]) -> bool:
        """Whether the grammar has seen EOS, or there is none and nothing else can follow."""
        matcher = self.order.matcher(self.vocabulary)
        if matcher is None:
            return False
        try:
            if not all(matcher.accept(token_id) for token_id in ids):
                return False
            if matcher.is_terminated() or self.vocabulary.eos_token_ids or not matcher.is_accepting():
                return bool(matcher.is_terminated())
            bitmask = np.zeros((1, -(-VOCAB // 32)), np.int32)
            matcher.fill_bitmask(bitmask, 0)
        except RuntimeError:
            return False
        return not bitmask.any()

    def text(self, finish_reason: str | None) -> str:
        """The expected text of the record."""
        k = len(self.tokens)
        if finish_reason is None:
            return self.certain(k)
        ending = None if finish_reason in ("error", "abort") or not k else self.ending(k)
        return _decoded(self.data(k)[: None if ending is None else ending[2]])


@functools.cache
def unfinished_characters() -> frozenset[bytes]:
    """Every proper prefix of a character's UTF-8."""
    characters = (chr(c).encode() for c in range(0x80, 0x110000, 32) if not 0xD800 <= c < 0xE000)
    return frozenset(char[:n] for char in characters for n in range(1, len(char)))


def _tails(data: bytes, most: int) -> Iterator[bytes]:
    return (data[len(data) - n :] for n in range(1, min(most, len(data)) + 1))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _repeats(ids: Sequence[int], most: int, least: int, count: int) -> bool:
    """Whether `ids` end with a pattern of `least` to `most` tokens, `count` times."""
    return any(list(ids[-size * count :]) == list(ids[-size:]) * count for size in range(least, most + 1))


def child_order(order: Order) -> Order:
    """`order` for a single request."""
    return replace(order, params=order.params.replace(n=1, best_of=None))
