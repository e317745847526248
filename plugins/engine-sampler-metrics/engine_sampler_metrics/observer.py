"""`MetricsObserver`: the events of schedulers as Prometheus metrics; `BatchHistogram` takes many observations
in one call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, zip_longest
from typing import Any, TypeVar

import numpy as np
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from engine_sampler import Record, SamplingParams
from engine_sampler.contract import GrammarMeasures, StepMeasures


class BatchHistogram(Histogram):
    """A histogram with `observe_all`, which costs little more for a hundred amounts than for one.

    prometheus_client takes one amount in a call, so this adds to the buckets themselves.
    """

    def observe_all(self, amounts: Sequence[float]) -> None:
        """The same as `observe` for each amount."""
        self._sum.inc(sum(amounts))
        counts = np.bincount(np.searchsorted(self._upper_bounds, amounts))
        for bucket, count in zip(self._buckets, counts.tolist(), strict=False):
            if count:
                bucket.inc(count)


MICROSECOND, MILLISECOND = 1e-6, 1e-3

STEP_SECONDS = tuple(
    [n * MICROSECOND for n in (25, 50, 100, 250, 500)]
    + [n * MILLISECOND for n in (1, 2.5, 5, 10, 25, 50, 100, 250, 1000)]
)
COMPILE_SECONDS = tuple([n * MILLISECOND for n in (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500)] + [1, 5, 30])
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

FINISH_REASONS = frozenset(("stop", "length", "repetition", "abort", "error"))
SCHEDULER = "scheduler"
OTHER = "other"
"""The label of everything that would make labels grow without bound."""

MOST_POSITIONS = 32
"""Drafts beyond this position share one label."""


MOST_SCHEDULERS = 64
"""Schedulers beyond these share one label: a process may make them without end."""

MOST_UNCOUNTED = 128
"""The most steps that are kept until they are counted."""

T = TypeVar("T", bound=MetricWrapperBase)


class MetricsObserver(Collector):
    """Counts what schedulers do; the times are wall-clock seconds. It has a method for each event that it
    observes, and those of a collector.

    A step costs next to nothing when it happens. Steps are counted, many at a time, when the metrics are
    scraped, and whenever `MOST_UNCOUNTED` of them have gathered. With several processes
    (PROMETHEUS_MULTIPROC_DIR), where another process may read the metrics at any time, every step is counted
    at once.

    registry  where the metrics are registered; default: prometheus_client's own.
    """

    name = "metrics"

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._metrics: list[MetricWrapperBase] = []

        def added(metric: T) -> T:
            self._metrics.append(metric)
            return metric

        def counter(name: str, text: str, *labels: str) -> Counter:
            return added(Counter(f"engine_sampler_{name}", text, (SCHEDULER, *labels), registry=None))

        def batch_histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> BatchHistogram:
            names = (SCHEDULER, *labels)
            return added(
                BatchHistogram(f"engine_sampler_{name}", text, names, buckets=buckets, registry=None)
            )

        self._step_seconds = batch_histogram("step_seconds", "Duration of a step", STEP_SECONDS, "backend")
        self._step_rows = batch_histogram("step_rows", "Rows of logits in a step", ROWS)
        self._tokens = counter("tokens", "Tokens drawn")
        self._postponed = counter("postponed", "Rows without a token because their requests need more work")
        self._row_faults = counter("row_faults", "Requests that a step ended with an error")
        self._fallback_rows = counter("fallback_rows", "Rows that the host ran for a library", "reason")
        self._certain = counter("certain_rows", "Draws and cuts that bounds of weights decided")
        self._weighed = counter("weighed_rows", "Draws and cuts that took a second pass over the row")
        self._drafts = counter("draft_tokens", "Draft tokens", "position")
        self._accepted = counter("draft_accepted", "Draft tokens that were accepted", "position")
        self._running = added(
            Gauge("engine_sampler_requests_running", "Requests in steps", (SCHEDULER,), registry=None)
        )
        self._suspended = added(
            Gauge("engine_sampler_requests_suspended", "Suspended requests", (SCHEDULER,), registry=None)
        )
        self._first_seconds = batch_histogram(
            "first_token_seconds", "From the arrival of a request to its first token", COMPILE_SECONDS
        )
        self._finished = counter("finished", "Requests that have ended", "reason")
        self._mask_seconds = batch_histogram(
            "grammar_mask_seconds", "Grammar masks of all rows of a step", STEP_SECONDS
        )
        self._compile_seconds = batch_histogram(
            "grammar_compile_seconds", "Compiling of a request's grammar", COMPILE_SECONDS
        )
        self._cache_hits = counter("grammar_cache_hits", "Requests whose grammar was compiled already")
        self._failures = counter("grammar_failures", "Grammars that could not be compiled")
        self._labels: dict[str, str] = {}
        self._arrivals: dict[tuple[str, Any], float] = {}
        self._paused: set[tuple[str, Any]] = set()
        self._uncounted: list[tuple[str, StepMeasures]] = []
        self._most_uncounted = 1 if "PROMETHEUS_MULTIPROC_DIR" in os.environ else MOST_UNCOUNTED
        self._counting = threading.Lock()
        registry.register(self)

    # --- events ----------------------------------------------------------------------------------

    def request_added(self, request_id: Any, params: SamplingParams, scheduler: str) -> None:
        self._arrivals[scheduler, request_id] = time.monotonic()
        self._running.labels(self._label(scheduler)).inc()

    def first_token(self, request_id: Any, scheduler: str) -> None:
        if (arrived := self._arrivals.pop((scheduler, request_id), None)) is not None:
            self._first_seconds.labels(self._label(scheduler)).observe(time.monotonic() - arrived)

    def request_suspended(self, request_id: Any, scheduler: str) -> None:
        self._paused.add((scheduler, request_id))
        self._running.labels(self._label(scheduler)).dec()
        self._suspended.labels(self._label(scheduler)).inc()

    def request_resumed(self, request_id: Any, scheduler: str) -> None:
        self._paused.discard((scheduler, request_id))
        self._running.labels(self._label(scheduler)).inc()
        self._suspended.labels(self._label(scheduler)).dec()

    def request_finished(self, record: Record, scheduler: str) -> None:
        key, label, reason = (scheduler, record.request_id), self._label(scheduler), record.finish_reason
        self._arrivals.pop(key, None)
        (self._suspended if key in self._paused else self._running).labels(label).dec()
        self._paused.discard(key)
        self._finished.labels(label, reason if reason in FINISH_REASONS else OTHER).inc()

    def step_measured(self, measures: StepMeasures, scheduler: str) -> None:
        self._uncounted.append((self._label(scheduler), measures))
        if len(self._uncounted) >= self._most_uncounted:
            self._count_steps()

    def grammar_compiled(self, measures: GrammarMeasures, scheduler: str) -> None:
        label = self._label(scheduler)
        if measures.error is not None:
            self._failures.labels(label).inc()
        elif measures.cached:
            self._cache_hits.labels(label).inc()
        else:
            self._compile_seconds.labels(label).observe(measures.seconds)

    def rows_on_host(self, backend: str, rows: int, reason: str, scheduler: str) -> None:
        self._fallback_rows.labels(self._label(scheduler), reason).inc(rows)

    def _label(self, scheduler: str) -> str:
        """The label of a scheduler."""
        if scheduler not in self._labels and len(self._labels) < MOST_SCHEDULERS:
            self._labels[scheduler] = scheduler
        return self._labels.get(scheduler, OTHER)

    # --- scraping --------------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        """The metrics without values, for a registry that looks for two of one name."""
        for metric in self._metrics:
            yield from metric.describe()

    def collect(self) -> Iterator[Metric]:
        """The metrics with all steps so far."""
        self._count_steps()
        for metric in self._metrics:
            yield from metric.collect()

    def _count_steps(self) -> None:
        """Count the steps that are not yet counted. Other threads may go on adding some."""
        with self._counting:
            steps = self._uncounted.copy()
            del self._uncounted[: len(steps)]
            for label in {label for label, _ in steps}:
                self._count(label, [measures for other, measures in steps if other == label])

    def _count(self, label: str, steps: Sequence[StepMeasures]) -> None:
        columns: Any = StepMeasures._make(zip(*steps, strict=True))
        for backend in set(columns.backend):
            is_its_own = map(backend.__eq__, columns.backend)
            self._step_seconds.labels(label, backend).observe_all([*compress(columns.seconds, is_its_own)])
        self._step_rows.labels(label).observe_all(columns.rows)
        if any(columns.mask_seconds):
            self._mask_seconds.labels(label).observe_all([*filter(None, columns.mask_seconds)])
        self._tokens.labels(label).inc(sum(columns.tokens))
        self._postponed.labels(label).inc(sum(columns.postponed))
        self._row_faults.labels(label).inc(sum(columns.faults))
        self._certain.labels(label).inc(sum(columns.certain))
        self._weighed.labels(label).inc(sum(columns.weighed))
        _count_by_position(self._drafts, label, columns.drafted)
        _count_by_position(self._accepted, label, columns.accepted)


def _count_by_position(counter: Counter, label: str, steps: Iterable[tuple[int, ...]]) -> None:
    """Add what each step counts at each position."""
    for position, counts in enumerate(zip_longest(*steps, fillvalue=0)):
        counter.labels(label, str(position) if position < MOST_POSITIONS else OTHER).inc(sum(counts))
