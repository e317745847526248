"""Outputs under a criterion: their tokens, and its verdicts as a scheduler asks for them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...contract import StoppingCriteria, StopVerdict, TextMatcher, TokenLogprob, Vocabulary
from ...requests.detokenizer import Detokenizer
from ...tokenizer import Tokenizer
from ..cases import Random

PIECES = (
    *(bytes([byte]) for byte in b"abcdxyz0123 ."),
    *(piece.encode() for piece in ("ab", "bc", "cab", "xyx", "é", "10", ". ")),
    "é".encode()[:1],
    "é".encode()[1:],
    *(b"\n", b"", b".\n\nb", "€".encode()[:2], "€".encode()[2:], "🙂".encode()),
    *(bytes([byte]) for byte in b"()[]{}<>\"',:-AZ"),
    *(b"()", b"a)", b'{"', b'"}', b"Ab", b"</"),
    b"<end>",
)
"""The tokens of outputs: letters, overlapping pieces, half characters, lines, nothing, brackets and quotes,
capitals, and EOS, which is a special token."""


class StoppingTrial:
    """One output under a criterion, as a scheduler would present it."""

    def __init__(
        self, criterion: StoppingCriteria, values: Mapping[str, Any], vocabulary: Vocabulary
    ) -> None:
        prompt = np.array([1, 0], np.int64)
        self._criterion = criterion
        self._state = criterion.new_state(values, prompt, vocabulary)
        self._stream = Detokenizer(vocabulary.tokenizer or Tokenizer(()))
        self._size = vocabulary.size
        self._values = values
        self.watch = criterion.watch(values, prompt, vocabulary)

    def check(self, *token_ids: int) -> StopVerdict | None:
        """The verdict on more tokens."""
        before = len(self._stream.text)
        for token_id in token_ids:
            self._stream.push(token_id)
        more = logprobs_for(self._criterion, self._values, token_ids, self._size)
        verdict = self._criterion.check(self._state, list(token_ids), self._stream.text[before:], **more)
        good = verdict is None or isinstance(verdict, StopVerdict)
        assert good, f"check gives {verdict!r}; allowed are None and a StopVerdict"
        return verdict

    def expect_watched(self, verdict: StopVerdict | None, token: int, length: int) -> None:
        """Raise AssertionError unless the watch, if there is one, sees `token`, the last of `length`."""
        if self.watch is not None:
            seen = token in self.watch.token_ids
            seen |= self.watch.output_length is not None and length >= self.watch.output_length
            assert seen, f"{verdict} comes at token {length}, where {self.watch} does not apply"

    def rollback(self, n: int) -> None:
        self._stream.rollback(n)
        self._criterion.rollback(self._state, n)

    def fork(self) -> StoppingTrial:
        child = copy.copy(self)
        child._state, child._stream = self._criterion.fork(self._state), self._stream.fork()
        return child


def row_for(token: int, size: int) -> np.ndarray:
    """Logits [size] under which `token` is chosen, with the probability that `_logprob` gives."""
    row = np.zeros(size, np.float32)
    row[token] = 1 + token % 5
    return row


def logprobs_for(
    criterion: StoppingCriteria, values: Mapping[str, Any], token_ids: Sequence[int], size: int
) -> dict[str, Any]:
    """The further argument of `check`, if the criterion takes it."""
    top_k = criterion.confidence_top_k(values)
    return {"logprobs": [_logprob(t, size, top_k) for t in token_ids]} if criterion.wants_logprobs else {}


def _logprob(token: int, size: int, top_k: int) -> float:
    """The logprob of `token` in a scheduler whose rows are those of `row_for`, with the confidence of the
    `top_k` likeliest tokens unless these are none."""
    row = row_for(token, size).astype(np.float64)
    logprobs = (row - np.log(np.exp(row).sum())).astype(np.float32)
    chosen = float(logprobs[token])
    likeliest = np.sort(logprobs)[::-1][:top_k]
    return TokenLogprob(chosen, -float(likeliest.mean(dtype=np.float64))) if top_k else chosen


def pieces_for(texts: Iterable[str]) -> list[bytes]:
    """`PIECES`, and the characters of `texts` that are not among them."""
    letters = (letter.encode() for text in texts for letter in text)
    return list(dict.fromkeys((*PIECES, *letters)))


def spelled(text: str, pieces: Sequence[bytes]) -> list[int]:
    """A text in tokens of one character each, [] if one of them is missing."""
    letters = [letter.encode() for letter in text]
    return [*map(pieces.index, letters)] if set(letters) <= set(pieces) else []


def vocabulary_for(
    values: Sequence[Mapping[str, Any]], random: Random, texts: Sequence[str] = ()
) -> Vocabulary:
    """The kit's tokens, and parts of `texts` and of those among `values`, so that outputs have such texts."""
    pieces = list(PIECES[:-1])
    for text in (*texts, *texts_in(values)):
        data = text.encode()[:64]
        cut = int(random.integers(len(data) + 1))
        pieces += [part for part in (data, data[:cut], data[cut:]) if part]
    end = len(pieces)
    return Vocabulary(end + 1, (end,), Tokenizer([*pieces, PIECES[-1]], special_token_ids=[end]))


def texts_in(values: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts among parameters, none of them empty, each once."""
    return sorted({text for one in values for text in _texts_of(list(one.values())) if text})


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts_of(entry)


def verdicts_on(
    criterion: StoppingCriteria,
    values: Mapping[str, Any],
    vocabulary: Vocabulary,
    outputs: Sequence[Sequence[int]],
) -> list[list[StopVerdict | None]]:
    """The verdicts on each token of each of `outputs`."""
    trials = [(StoppingTrial(criterion, values, vocabulary), output) for output in outputs]
    return [[trial.check(token) for token in output] for trial, output in trials]


class MatcherReading:
    """A text that a matcher has read in one or more calls, up to the first match.

    match  its end and the end of the text, as offsets in the whole text, and the reason.
    held   the bytes held back, None after a match.
    """

    def __init__(self, matcher: TextMatcher) -> None:
        self._matcher = matcher
        self._state: Any = matcher.start
        self._length = 0
        self.match: tuple[int, int, Any] | None = None

    def read(self, data: bytes) -> MatcherReading:
        state, match = self._matcher.advance(self._state, data)
        if self.match is None and match is not None:
            self.match = self._length + match.end, self._length + match.text_end, match.reason
        self._state = state
        self._length += len(data)
        return self

    @property
    def held(self) -> int | None:
        return None if self.match else self._matcher.held(self._state)
