"""Outputs that come and go under one criterion, each beside a fresh one that reads it alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...contract import StoppingCriteria, StopVerdict, Vocabulary
from ...requests.detokenizer import Detokenizer
from ...tokenizer import Tokenizer
from ..cases import Random
from .drawing import draw_depth
from .surroundings import anywhere

EVENTS = 60
"""What happens in one life."""

PIECES = (
    *(bytes([byte]) for byte in b"abcdxyz0123 ."),
    *(piece.encode() for piece in ("ab", "bc", "cab", "xyx", "é", "10", ". ")),
    "é".encode()[:1],
    "é".encode()[1:],
    *(b"\n", b"", b".\n\nb", "€".encode()[:2], "€".encode()[2:], "🙂".encode()),
    b"<end>",
)
"""The tokens of outputs: letters, overlapping pieces, half characters, lines, nothing, and EOS, which is a
special token."""

_MOST_LIVE = 5


class StoppingTrial:
    """One output under a criterion, as a scheduler would present it."""

    def __init__(
        self, criterion: StoppingCriteria, values: Mapping[str, Any], vocabulary: Vocabulary
    ) -> None:
        prompt = np.array([1, 0], np.int64)
        self._criterion = criterion
        self._state = criterion.new_state(values, prompt, vocabulary)
        self._stream = Detokenizer(vocabulary.tokenizer or Tokenizer(()))
        self.watch = criterion.watch(values, prompt, vocabulary)

    def check(self, *token_ids: int) -> StopVerdict | None:
        """The verdict on more tokens."""
        before = len(self._stream.text)
        for token_id in token_ids:
            self._stream.push(token_id)
        more = {"logprobs": [logprob(t) for t in token_ids]} if self._criterion.wants_logprobs else {}
        verdict = self._criterion.check(self._state, list(token_ids), self._stream.text[before:], **more)
        good = verdict is None or isinstance(verdict, StopVerdict)
        assert good, f"check gives {verdict!r}; allowed are None and a StopVerdict"
        return verdict

    def rollback(self, n: int) -> None:
        self._stream.rollback(n)
        self._criterion.rollback(self._state, n)

    def fork(self) -> StoppingTrial:
        child = copy.copy(self)
        child._state, child._stream = self._criterion.fork(self._state), self._stream.fork()
        return child


def row_for(token: int, size: int) -> np.ndarray:
    """Logits [size] under which `token` is chosen, with the probability that `logprob` gives."""
    row = np.zeros(size, np.float32)
    row[token] = 1 + token % 5
    return row


def logprob(token: int) -> float:
    """The logprob of `token` in a scheduler whose rows are those of `row_for`, for the kit's tokens."""
    row = row_for(token, max(len(PIECES), token + 1)).astype(np.float64)
    return float(np.float32(row[token] - np.log(np.exp(row).sum())))


@dataclass
class _Output:
    """One output: its trial, the parameters, and the tokens so far, the last of which may have ended it."""

    trial: StoppingTrial
    values: Mapping[str, Any]
    tokens: list[int] = field(default_factory=list)
    ended: bool = False


class StoppingLives:
    """Outputs under one criterion, with any of `values`, and what happens to them."""

    def __init__(
        self,
        criterion: StoppingCriteria,
        values: Sequence[Mapping[str, Any]],
        random: Random,
        fresh: Callable[[], StoppingCriteria],
    ) -> None:
        self._criterion, self._values, self._random, self._fresh = criterion, values, random, fresh
        self._vocabulary = vocabulary_for(values, random)
        self._likely = random.integers(0, self._vocabulary.size, 6).tolist()
        self._outputs: list[_Output] = []

    def run(self) -> None:
        """Let things happen; raises AssertionError where a verdict differs from the model's."""
        events = (self._read, self._read, self._read, self._join, self._rollback, self._fork, self._leave)
        for _ in range(EVENTS):
            event = events[int(self._random.integers(len(events)))] if self._outputs else self._join
            anywhere(self._random, event)

    # --- what happens ----------------------------------------------------------------------------

    def _join(self) -> None:
        if len(self._outputs) < _MOST_LIVE:
            values = self._values[int(self._random.integers(len(self._values)))]
            self._outputs.append(_Output(StoppingTrial(self._criterion, values, self._vocabulary), values))

    def _read(self) -> None:
        output = self._any()
        if output.ended:
            self._roll(output, int(self._random.integers(1, len(output.tokens) + 1)))
        count = int(self._random.choice([1, 1, 1, 3, 8]))
        tokens = [self._token() for _ in range(count)]
        if self._random.random() < 0.2:
            tokens = tokens[:1] * int(self._random.integers(1, 40))
        right = self._of_model(output, tokens)
        first = next((at for at, verdict in enumerate(right) if verdict is not None), None)
        tokens = tokens if first is None else tokens[: first + 1]
        found = output.trial.check(*tokens)
        same = found == right[len(tokens) - 1] if len(tokens) == 1 else (found is None) == (first is None)
        if first is not None and output.trial.watch is not None:
            watch, length = output.trial.watch, len(output.tokens) + first + 1
            seen = tokens[first] in watch.token_ids
            seen |= watch.output_length is not None and length >= watch.output_length
            assert seen, f"{right[first]} comes at token {length}, where {watch} does not apply"
        output.tokens += tokens
        output.ended = first is not None
        assert same, (
            f"{self._criterion.name} gives {found}, not {right[len(tokens) - 1]}, beside others, after "
            f"{self._text(output.tokens)!r} with {_given(self._criterion, output.values)}"
        )

    def _rollback(self) -> None:
        output = self._any()
        self._roll(output, draw_depth(self._random, len(output.tokens)))

    def _fork(self) -> None:
        parent = self._any()
        if len(self._outputs) < _MOST_LIVE:
            self._outputs.append(
                _Output(parent.trial.fork(), parent.values, parent.tokens.copy(), parent.ended)
            )

    def _leave(self) -> None:
        self._outputs.remove(self._any())

    # --- helpers ---------------------------------------------------------------------------------

    def _any(self) -> _Output:
        return self._outputs[int(self._random.integers(len(self._outputs)))]

    def _roll(self, output: _Output, n: int) -> None:
        output.trial.rollback(n)
        del output.tokens[len(output.tokens) - n :]
        output.ended &= n == 0

    def _token(self) -> int:
        if self._random.random() < 0.5:
            return int(self._random.choice(self._likely))
        return int(self._random.integers(self._vocabulary.size))

    def _of_model(self, output: _Output, tokens: Sequence[int]) -> list[StopVerdict | None]:
        """The verdicts of a fresh criterion on each of `tokens`."""
        trial = StoppingTrial(self._fresh(), output.values, self._vocabulary)
        for token in output.tokens:
            trial.check(token)
        return [trial.check(token) for token in tokens]

    def _text(self, tokens: Sequence[int]) -> bytes:
        pieces = self._vocabulary.need_tokenizer("the kit").token_bytes
        return b"".join(pieces[token] for token in tokens)


def spelled_texts(values: Iterable[Mapping[str, Any]]) -> Iterator[list[int]]:
    """The texts among `values` in the kit's tokens, as far as they can be spelled."""
    numbers = {piece: token for token, piece in enumerate(PIECES)}
    for text in _texts_in(values):
        tokens = [numbers.get(letter.encode(), -1) for letter in text]
        if min(tokens) >= 0:
            yield tokens


def vocabulary_for(values: Sequence[Mapping[str, Any]], random: Random) -> Vocabulary:
    """The kit's tokens, and parts of the texts among `values`, so that outputs have such texts."""
    texts = _texts_in(values)
    pieces = list(PIECES[:-1])
    for text in texts:
        data = text.encode()[:64]
        cut = int(random.integers(len(data) + 1))
        pieces += [part for part in (data, data[:cut], data[cut:]) if part]
    end = len(pieces)
    return Vocabulary(end + 1, (end,), Tokenizer([*pieces, PIECES[-1]], special_token_ids=[end]))


def _texts_in(values: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts among parameters, none of them empty, each once."""
    return sorted({text for one in values for text in _texts_of(list(one.values())) if text})


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts_of(entry)


def _given(criterion: StoppingCriteria, values: Mapping[str, Any]) -> dict[str, Any]:
    return {param.name: values[param.name] for param in criterion.params if param.name in values}


def verdicts_on(
    criterion: StoppingCriteria,
    values: Mapping[str, Any],
    vocabulary: Vocabulary,
    outputs: Sequence[Sequence[int]],
) -> list[list[StopVerdict | None]]:
    """The verdicts on each token of each of `outputs`."""
    trials = [(StoppingTrial(criterion, values, vocabulary), output) for output in outputs]
    return [[trial.check(token) for token in output] for trial, output in trials]
