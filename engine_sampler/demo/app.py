"""The demo: many requests in one scheduler, each with its own configuration."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..explain.labels import settings_text
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

    alone       the tokens of the same request in a run by itself, if there was one.
    seconds     the total time of its steps.
    started_at, ended_at  step numbers; None until the request starts or ends.
    outcome     the finish reason; None while the request waits or runs.
    """

    configuration: DemoConfiguration
    params: SamplingParams
    chain: str
    alone: Sequence[int] | None = None
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    seconds: float = 0.0
    started_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    @property
    def settings(self) -> str:
        """The parameters in a line; of a request that ran alone, how many tokens are the same."""
        if self.alone is None:
            return self.configuration.settings or settings_text(self.configuration.parameters)
        equal = sum(a == b for a, b in zip(self.token_ids, self.alone, strict=False))
        return f"{equal} of {self.tokens} tokens as alone"

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


class StepTimes(NamedTuple):
    """The rows of a step, and the seconds that it spent in the model and in sampling."""

    rows: int
    model: float
    sampling: float


Event = tuple[Literal["joins", "ends"], Stream]


class Demo:
    """The requests of `CONFIGURATIONS`, each continuing the same prompt.

    streams      every request, in order.
    panels       the stream that each panel shows, or None.
    groups       chain → number of rows sampled with it.
    group_steps  the number of groups, summed over all steps.
    times        of every step.
    """

    def __init__(self, session: DemoSession, prompt: str, seed: int) -> None:
        self.session = session
        self.prompt = prompt
        self.seed = seed
        self.streams = [_stream(c, seed + i) for i, c in enumerate(CONFIGURATIONS)]
        for stream in self.streams:
            if stream.configuration.runs_alone:
                stream.alone = _tokens_alone(session, stream.params, prompt)
        self.waiting = deque(self.streams)
        self.panels: list[Stream | None] = [None] * PANELS
        self.groups: Counter[str] = Counter()
        self.group_steps = 0
        self.times: list[StepTimes] = []

    @property
    def running(self) -> list[Stream]:
        return [s for s in self.streams if s.started_at is not None and s.ended_at is None]

    def again(self, steps: int) -> Demo:
        """The same once more, run to its end without a screen in between."""
        demo = Demo(self.session.apart(), self.prompt, self.seed)
        for _ in demo.run(steps):
            pass
        return demo

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
        model, sampling = self.session.model_seconds, self.session.sampling_seconds
        result = self.session.step()
        model, sampling = self.session.model_seconds - model, self.session.sampling_seconds - sampling
        self.times.append(StepTimes(len(running), model, sampling))
        for i, name in enumerate(result.request_ids):
            stream = running[str(name)]
            stream.text += result.text[i] or ""
            stream.token_ids += result.tokens(i)
            stream.seconds += model + sampling
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


def _tokens_alone(session: DemoSession, params: SamplingParams, prompt: str) -> Sequence[int]:
    """What a request draws in a scheduler of its own."""
    apart = session.apart()
    request = apart.add(params, prompt)
    while apart.scheduler.request_ids:
        apart.step()
    return apart.scheduler.record(request).token_ids


def _stream(configuration: DemoConfiguration, seed: int) -> Stream:
    params = SamplingParams(**configuration.parameters, max_tokens=configuration.max_tokens, seed=seed)
    return Stream(configuration, params, str(build_chain(params)))
