"""Outputs that come and go under one criterion, each beside a fresh one that reads it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...contract import StoppingCriteria, StopVerdict
from .drawing import draw_depth
from .machine import RandomMachine
from .outputs import StoppingTrial, vocabulary_for
from .surroundings import anywhere

LENGTH = 60
"""The events of one sequence."""

_MOST_LIVE = 5


@dataclass
class _Output:
    """One output: its trial, the parameters, and the tokens so far, the last of which may have ended it."""

    trial: StoppingTrial
    values: Mapping[str, Any]
    tokens: list[int] = field(default_factory=list)
    ended: bool = False


class OutputMachine(RandomMachine):
    """Outputs under the criterion of a kit, and what happens to them.

    fresh  gives a criterion that has never been used, for the model.
    """

    events = ("read", "read", "read", "join", "rollback", "fork", "leave")

    def __init__(self, kit: Any, fresh: Callable[[], StoppingCriteria], number: int) -> None:
        super().__init__()
        self._kit, self._criterion, self._fresh = kit, kit.criterion, fresh
        self._outputs: list[_Output] = []

    def call(self, work: Callable[[], None]) -> None:
        anywhere(self.random, work)

    def begin(self) -> None:
        self._values = self._kit.mixed_values(self.random)
        self._vocabulary = vocabulary_for(self._values, self.random, self._kit.texts_of_ends)
        self._likely = self.random.integers(0, self._vocabulary.size, 6).tolist()
        self.join()

    def join(self) -> None:
        if len(self._outputs) < _MOST_LIVE:
            values = self._values[int(self.random.integers(len(self._values)))]
            self._outputs.append(_Output(StoppingTrial(self._criterion, values, self._vocabulary), values))

    def read(self) -> None:
        for output in self._any():
            self._read(output)

    def rollback(self) -> None:
        for output in self._any():
            self._roll(output, draw_depth(self.random, len(output.tokens)))

    def fork(self) -> None:
        for parent in self._any() if len(self._outputs) < _MOST_LIVE else ():
            child = _Output(parent.trial.fork(), parent.values, parent.tokens.copy(), parent.ended)
            self._outputs.append(child)

    def leave(self) -> None:
        for output in self._any():
            self._outputs.remove(output)

    # --- helpers ---------------------------------------------------------------------------------

    def _any(self) -> Sequence[_Output]:
        """One of the outputs, if there is one."""
        return [self._outputs[int(self.random.integers(len(self._outputs)))]] if self._outputs else []

    def _read(self, output: _Output) -> None:
        if output.ended:
            self._roll(output, int(self.random.integers(1, len(output.tokens) + 1)))
        tokens = [self._token() for _ in range(int(self.random.choice([1, 1, 1, 3, 8])))]
        if self.random.random() < 0.2:
            tokens = tokens[:1] * int(self.random.integers(1, 40))
        right = self._of_model(output, tokens)
        first = next((at for at, verdict in enumerate(right) if verdict is not None), None)
        tokens = tokens if first is None else tokens[: first + 1]
        outcome = output.trial.check(*tokens)
        same = outcome == right[len(tokens) - 1] if len(tokens) == 1 else (outcome is None) == (first is None)
        if first is not None:
            output.trial.expect_watched(right[first], tokens[first], len(output.tokens) + first + 1)
        output.tokens += tokens
        output.ended = first is not None
        assert same, (
            f"{self._criterion.name} gives {outcome}, not {right[len(tokens) - 1]}, beside others, after "
            f"{self._text(output.tokens)!r} with {self._kit.own(output.values)}, after {self.recent()}"
        )

    def _roll(self, output: _Output, n: int) -> None:
        output.trial.rollback(n)
        del output.tokens[len(output.tokens) - n :]
        output.ended &= n == 0

    def _token(self) -> int:
        if self.random.random() < 0.5:
            return int(self.random.choice(self._likely))
        return int(self.random.integers(self._vocabulary.size))

    def _of_model(self, output: _Output, tokens: Sequence[int]) -> list[StopVerdict | None]:
        """The verdicts of a fresh criterion on each of `tokens`."""
        trial = StoppingTrial(self._fresh(), output.values, self._vocabulary)
        for token in output.tokens:
            trial.check(token)
        return [trial.check(token) for token in tokens]

    def _text(self, tokens: Sequence[int]) -> bytes:
        pieces = self._vocabulary.need_tokenizer("the kit").token_bytes
        return b"".join(pieces[token] for token in tokens)
