"""The demo: many requests in one scheduler, each with its own configuration."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..params import SamplingParams, build_chain
from .configurations import CONFIGURATIONS, DemoConfiguration
from .engine import DemoSession

PANELS = 8
"""Requests that run at the same time; the others wait."""

LINGER = 10
"""Steps for which a finished request stays visible before its panel is reused."""


@dataclass
class Stream:
    """One request as the demo shows it.

    seconds     the total time of its steps.
    started_at, ended_at  step numbers; None until the request starts or ends.
    outcome     the finish reason; None while the request waits or runs.
    """

    configuration: DemoConfiguration
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


Event = tuple[Literal["joins", "ends"], Stream]


class Demo:
    """The requests of `CONFIGURATIONS`, each continuing the same prompt.

    streams      every request, in order.
    panels       the stream that each panel shows, or None.
    groups       chain → number of rows sampled with it.
    group_steps  the number of groups, summed over all steps.
    """

    def __init__(self, session: DemoSession, prompt: str, seed: int) -> None:
        self.session = session
        self.prompt = prompt
        self.streams = [_stream(c, seed + i) for i, c in enumerate(CONFIGURATIONS)]
        self.waiting = deque(self.streams)
        self.panels: list[Stream | None] = [None] * PANELS
        self.groups: Counter[str] = Counter()
        self.group_steps = 0

    @property
    def running(self) -> list[Stream]:
        return [s for s in self.streams if s.started_at is not None and s.ended_at is None]

    def run(self, steps: int) -> Iterator[list[Event]]:
        """Step until every request has ended, at most `steps` times; then abort those still running.

        Yields the events before the first step, of every step, and at the end.
        """
        yield list(self._start_waiting())
        while self.running and self.session.steps < steps:
            yield [*self._step(), *self._start_waiting()]
        yield [
            self._end(stream, self.session.scheduler.remove(stream.name).finish_reason)
            for stream in self.running
        ]

    def _start_waiting(self) -> Iterator[Event]:
        """Start waiting requests in the panels that are free."""
        for i, shown in enumerate(self.panels):
            if self.waiting and (shown is None or self._may_replace(shown)):
                stream = self.panels[i] = self.waiting.popleft()
                stream.started_at = self.session.steps
                self.session.add(stream.params, self.prompt, stream.name)
                yield "joins", stream

    def _may_replace(self, shown: Stream) -> bool:
        if shown.ended_at is None:
            return False
        return self.session.steps - shown.ended_at >= LINGER or not self.running

    def _step(self) -> Iterator[Event]:
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

    def _end(self, stream: Stream, outcome: str | None, error: str | None = None) -> Event:
        stream.outcome, stream.error, stream.ended_at = outcome, error, self.session.steps
        return "ends", stream


def _stream(configuration: DemoConfiguration, seed: int) -> Stream:
    params = SamplingParams(**configuration.parameters, max_tokens=configuration.max_tokens, seed=seed)
    return Stream(configuration, params, str(build_chain(params)))
