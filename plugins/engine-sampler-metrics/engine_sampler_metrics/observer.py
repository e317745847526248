"""`MetricsObserver`: the events of schedulers as Prometheus metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from engine_sampler import GrammarMeasures, Record, SamplingParams, StepMeasures

MICROSECOND, MILLISECOND = 1e-6, 1e-3

STEP_SECONDS = tuple(
    [n * MICROSECOND for n in (25, 50, 100, 250, 500)]
    + [n * MILLISECOND for n in (1, 2.5, 5, 10, 25, 50, 100, 250, 1000)]
)
COMPILE_SECONDS = tuple([n * MILLISECOND for n in (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500)] + [1, 5, 30])
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

FINISH_REASONS = frozenset(("stop", "length", "repetition", "abort", "error"))
OTHER = "other"
"""The label of everything that would make labels grow without bound."""

MOST_POSITIONS = 32
"""Drafts beyond this position share one label."""


class MetricsObserver:
    """Counts what schedulers do; the times are wall-clock seconds. Its methods are the events of an observer.

    registry  where the metrics are registered; default: prometheus_client's own.
    """

    name = "metrics"

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"engine_sampler_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"engine_sampler_{name}", text, labels, buckets=buckets, registry=registry)

        self._step_seconds = histogram("step_seconds", "Duration of a step", STEP_SECONDS, "backend")
        self._step_rows = histogram("step_rows", "Rows of logits in a step", ROWS)
        self._tokens = counter("tokens", "Tokens drawn")
        self._postponed = counter("postponed", "Rows without a token because their requests need more work")
        self._row_faults = counter("row_faults", "Requests that a step ended with an error")
        self._fallback_rows = counter("fallback_rows", "Rows that the host ran for a library", "reason")
        self._drafts = counter("draft_tokens", "Draft tokens", "position")
        self._accepted = counter("draft_accepted", "Draft tokens that were accepted", "position")
        self._running = Gauge("engine_sampler_requests_running", "Live requests", registry=registry)
        self._finished = counter("finished", "Requests that have ended", "reason")
        self._mask_seconds = histogram(
            "grammar_mask_seconds", "Grammar masks of all rows of a step", STEP_SECONDS
        )
        self._compile_seconds = histogram(
            "grammar_compile_seconds", "Compiling of a request's grammar", COMPILE_SECONDS
        )
        self._cache_hits = counter("grammar_cache_hits", "Requests whose grammar was compiled already")
        self._failures = counter("grammar_failures", "Grammars that could not be compiled")

    def request_added(self, request_id: Any, params: SamplingParams) -> None:
        self._running.inc()

    def request_finished(self, record: Record) -> None:
        reason = record.finish_reason
        self._running.dec()
        self._finished.labels(reason if reason in FINISH_REASONS else OTHER).inc()

    def step_measured(self, measures: StepMeasures) -> None:
        self._step_seconds.labels(measures.backend).observe(measures.seconds)
        self._step_rows.observe(measures.rows)
        self._tokens.inc(measures.tokens)
        if measures.mask_seconds:
            self._mask_seconds.observe(measures.mask_seconds)
        if measures.postponed:
            self._postponed.inc(measures.postponed)
        if measures.faults:
            self._row_faults.inc(measures.faults)
        for counter, counts in ((self._drafts, measures.drafted), (self._accepted, measures.accepted)):
            for position, count in enumerate(counts):
                counter.labels(str(position) if position < MOST_POSITIONS else OTHER).inc(count)

    def grammar_compiled(self, measures: GrammarMeasures) -> None:
        if measures.error is not None:
            self._failures.inc()
        elif measures.cached:
            self._cache_hits.inc()
        else:
            self._compile_seconds.observe(measures.seconds)

    def rows_on_host(self, backend: str, rows: int, reason: str) -> None:
        self._fallback_rows.labels(reason).inc(rows)
