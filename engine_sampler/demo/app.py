"""The demo: many requests through one scheduler, each with a configuration of its own."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..params import SamplingParams, build_chain
from .configurations import CONFIGURATIONS, Configuration
from .session import Session

PLACES = 8
"""Requests that run at the same time; the others wait."""

LINGER = 10
"""Steps for which a finished request stays in sight before its place is reused."""


@dataclass
class Stream:
    """One request as a spectator sees it.

    seconds     the time of all steps it took part in.
    started_at, ended_at  step numbers; None before.
    outcome     the finish reason, None while it waits or runs.
    """

    configuration: Configuration
    params: SamplingParams
    chain: str
    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    started_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


News = tuple[Literal["joins", "ends"], Stream]


class Demo:
    """The requests of `CONFIGURATIONS`, each continuing the same prompt.

    streams      every request, in order.
    places       the stream seen in each place, or None.
    groups       chain → rows sampled with it.
    group_steps  groups, summed over all steps.
    """

    def __init__(self, session: Session, prompt: str, seed: int) -> None:
        self.session = session
        self.prompt = prompt
        self.streams = [_stream(c, seed + i) for i, c in enumerate(CONFIGURATIONS)]
        self.waiting = deque(self.streams)
        self.places: list[Stream | None] = [None] * PLACES
        self.groups: Counter[str] = Counter()
        self.group_steps = 0

    @property
    def running(self) -> list[Stream]:
        return [s for s in self.streams if s.started_at is not None and s.ended_at is None]

    def run(self, steps: int) -> Iterator[list[News]]:
        """Go on until every request has ended, at most `steps` steps; what runs then is aborted.

        Yields what happened: before the first step, with every step, and at the end.
        """
        yield list(self._join())
        while self.running and self.session.steps < steps:
            yield [*self._step(), *self._join()]
        yield [
            self._end(stream, self.session.scheduler.remove(stream.name).finish_reason)
            for stream in self.running
        ]

    def _join(self) -> Iterator[News]:
        """Waiting requests take the places that are free."""
        for place, seen in enumerate(self.places):
            if self.waiting and (seen is None or self._is_free(seen)):
                stream = self.places[place] = self.waiting.popleft()
                stream.started_at = self.session.steps
                self.session.add(stream.params, self.prompt, stream.name)
                yield "joins", stream

    def _is_free(self, seen: Stream) -> bool:
        if seen.ended_at is None:
            return False
        return self.session.steps - seen.ended_at >= LINGER or not self.running

    def _step(self) -> Iterator[News]:
        running = {stream.name: stream for stream in self.running}
        self._count_groups()
        before = self.session.seconds
        result = self.session.step()
        for i, name in enumerate(result.request_ids):
            stream = running[str(name)]
            stream.text += result.text[i] or ""
            stream.tokens += len(result.tokens(i))
            stream.seconds += self.session.seconds - before
            if result.finish_reasons[i] is not None:
                yield self._end(stream, result.finish_reasons[i], result.errors[i])

    def _count_groups(self) -> None:
        groups = self.session.scheduler.explain()
        self.group_steps += len(groups)
        for group in groups:
            self.groups[" → ".join(name for name, _ in group.steps)] += len(group.request_ids)

    def _end(self, stream: Stream, outcome: str | None, error: str | None = None) -> News:
        stream.outcome, stream.error, stream.ended_at = outcome, error, self.session.steps
        return "ends", stream


def _stream(configuration: Configuration, seed: int) -> Stream:
    params = SamplingParams(**configuration.parameters, max_tokens=configuration.max_tokens, seed=seed)
    return Stream(configuration, params, str(build_chain(params)))
