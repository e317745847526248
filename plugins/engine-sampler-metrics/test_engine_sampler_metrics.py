"""The metrics count what schedulers do, and can be scraped over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakSet

import engine_sampler_metrics
import numpy as np
import pytest
from engine_sampler_metrics import DASHBOARD, MetricsObserver
from engine_sampler_metrics.observer import MOST_SCHEDULERS, MOST_UNCOUNTED, BatchHistogram
from prometheus_client import CollectorRegistry, Histogram, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import StepMeasures, hookimpl
from engine_sampler.testing import ObserverContract, registered

VOCABULARY = [bytes([i]) for i in range(64, 127)] + [b"<eos>"]
EOS = len(VOCABULARY) - 1


class TestMetricsObserver(ObserverContract):
    observer = MetricsObserver(CollectorRegistry())


class Watched:
    """The metrics of one test, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._observer = MetricsObserver(self.registry)

    @hookimpl
    def register_observers(self, register: Any) -> None:
        register(self._observer)

    def __call__(self, name: str, scheduler: str = "tested", **labels: str) -> float:
        labels = {"scheduler": scheduler, **labels}
        return self.registry.get_sample_value(f"engine_sampler_{name}", labels) or 0.0


@pytest.fixture
def metrics() -> Iterator[Watched]:
    watched = Watched()
    with registered(watched, "metrics of a test"):
        yield watched


@pytest.fixture
def scheduler(metrics: Watched) -> Scheduler:
    return Scheduler(len(VOCABULARY), Tokenizer(VOCABULARY, [EOS], [EOS]), name="tested")


def flat_rows(scheduler: Scheduler) -> np.ndarray:
    return np.zeros((len(scheduler.request_ids), len(VOCABULARY)), np.float32)


def run(scheduler: Scheduler) -> int:
    """Step until no request is left; returns the number of steps."""
    steps = 0
    while scheduler.request_ids:
        scheduler.step(flat_rows(scheduler))
        steps += 1
    return steps


def test_steps_tokens_and_ends_are_counted(metrics: Watched, scheduler: Scheduler) -> None:
    for n in (2, 5):
        scheduler.add(SamplingParams(max_tokens=n, ignore_eos=True, seed=n))
    assert metrics("requests_running") == 2
    assert run(scheduler) == 5
    backend = scheduler.backend.name  # type: ignore[union-attr]
    assert metrics("step_seconds_count", backend=backend) == 5
    assert 0 < metrics("step_seconds_sum", backend=backend) < 60
    assert metrics("step_rows_sum") == metrics("tokens_total") == 7
    assert metrics("finished_total", reason="length") == 2
    assert metrics("requests_running") == metrics("row_faults_total") == 0


def test_two_schedulers_with_requests_of_the_same_ids_are_counted_apart(metrics: Watched) -> None:
    schedulers = {name: Scheduler(len(VOCABULARY), name=name) for name in ("small", "large")}
    for n, scheduler in enumerate(schedulers.values(), 2):
        scheduler.add(SamplingParams(max_tokens=n, ignore_eos=True, seed=n))
    schedulers["small"].suspend(0)
    assert [metrics("requests_running", name) for name in schedulers] == [0, 1]
    assert [metrics("requests_suspended", name) for name in schedulers] == [1, 0]
    schedulers["small"].resume(0)
    for scheduler in schedulers.values():
        run(scheduler)
    assert [metrics("tokens_total", name) for name in schedulers] == [2, 3]
    for name in schedulers:
        assert (
            metrics("first_token_seconds_count", name)
            == metrics("finished_total", name, reason="length")
            == 1
        )
        assert metrics("requests_running", name) == metrics("requests_suspended", name) == 0


def test_a_request_that_ends_while_it_is_suspended_is_neither_running_nor_suspended(
    metrics: Watched, scheduler: Scheduler
) -> None:
    scheduler.suspend(scheduler.add(SamplingParams()))
    scheduler.remove(0)
    assert metrics("requests_running") == metrics("requests_suspended") == 0
    assert metrics("finished_total", reason="abort") == 1


def test_schedulers_without_end_have_labels_with_an_end(metrics: Watched) -> None:
    for _ in range(MOST_SCHEDULERS + 3):
        Scheduler(len(VOCABULARY)).add(SamplingParams())
    assert metrics("requests_running", "other") == 3


def test_rows_are_counted_by_whether_bounds_decided_them(metrics: Watched) -> None:
    scheduler = Scheduler(2000, backend="native", name="tested")
    for _ in range(3):
        scheduler.add(SamplingParams(top_p=0.9, seed=1))
    rows = np.zeros((3, 2000), np.float32)
    rows[:2, 7] = 12  # the last one is flat
    scheduler.step(rows)
    assert (metrics("certain_rows_total"), metrics("weighed_rows_total")) == (2, 1)


def test_a_row_of_nan_is_a_fault(metrics: Watched, scheduler: Scheduler) -> None:
    for _ in range(2):
        scheduler.add(SamplingParams(seed=1))
    rows = flat_rows(scheduler)
    rows[1] = np.nan
    scheduler.step(rows)
    assert metrics("row_faults_total") == metrics("finished_total", reason="error") == 1
    assert metrics("tokens_total") == metrics("requests_running") == 1
    assert metrics("fallback_rows_total", reason="declined") == 0


def test_a_grammar_is_compiled_once_and_then_cached(metrics: Watched, scheduler: Scheduler) -> None:
    for _ in range(3):
        scheduler.add(SamplingParams(regex="[A-C]{4}metrics", seed=2))
    with pytest.raises(ValueError, match="regex"):
        scheduler.add(SamplingParams(regex="["))
    assert metrics("grammar_compile_seconds_count") == metrics("grammar_failures_total") == 1
    assert metrics("grammar_cache_hits_total") == 2
    steps = run(scheduler)
    assert metrics("grammar_mask_seconds_count") == steps
    assert metrics("grammar_mask_seconds_sum") > 0


def test_drafts_are_counted_by_position(metrics: Watched, scheduler: Scheduler) -> None:
    request_id = scheduler.add(SamplingParams(temperature=0, seed=1))
    rows = np.zeros((4, len(VOCABULARY)), np.float32)
    rows[np.arange(4), [3, 4, 5, 6]] = 9  # the greedy tokens
    scheduler.step(rows, [request_id], draft_token_ids=[[3, 4, 9]])
    assert [metrics("draft_tokens_total", position=str(i)) for i in range(4)] == [1, 1, 1, 0]
    assert [metrics("draft_accepted_total", position=str(i)) for i in range(4)] == [1, 1, 0, 0]
    assert metrics("tokens_total") == 3


@pytest.mark.parametrize("amounts", [[3], [0, 1, 1, 2, 2.5], [1, 4, 4.1, 1000], range(9)])
def test_many_observations_are_those_of_single_ones(amounts: Sequence[float]) -> None:
    many = BatchHistogram("rows", "rows", buckets=(1, 2, 4), registry=None)
    single = Histogram("rows", "rows", buckets=(1, 2, 4), registry=None)
    many.observe_all(amounts)
    for amount in amounts:
        single.observe(amount)
    assert samples_of(many) == samples_of(single)


def samples_of(histogram: Histogram) -> list[tuple[str, dict[str, str], float]]:
    samples = [sample for metric in histogram.collect() for sample in metric.samples]
    return [(s.name, s.labels, s.value) for s in samples if not s.name.endswith("_created")]


def test_steps_that_nobody_scrapes_are_kept_in_bounded_memory() -> None:
    observer = MetricsObserver(CollectorRegistry())
    seconds = [Seconds(1) for _ in range(3 * MOST_UNCOUNTED + 5)]
    kept = WeakSet(seconds)
    while seconds:
        observer.step_measured(StepMeasures("native", seconds.pop(), 0.0, 1, 1, 0, 0), "tested")
        assert len(kept) - len(seconds) < MOST_UNCOUNTED


class Seconds(float):
    """Seconds that can be watched."""


def test_several_schedulers_count_in_several_threads_while_they_are_scraped(metrics: Watched) -> None:
    schedulers = [Scheduler(len(VOCABULARY), name="tested") for _ in range(3)]
    tokens = 2 * MOST_UNCOUNTED + 7

    def generate(scheduler: Scheduler) -> None:
        scheduler.add(SamplingParams(max_tokens=tokens, ignore_eos=True, seed=1))
        run(scheduler)

    with ThreadPoolExecutor() as threads:
        running = [threads.submit(generate, scheduler) for scheduler in schedulers]
        counts = [0.0]
        while not all(future.done() for future in running):
            counts.append(metrics("tokens_total"))
        for future in running:
            future.result()
    assert counts == sorted(counts)
    backend = schedulers[0].backend.name  # type: ignore[union-attr]
    assert metrics("tokens_total") == metrics("step_seconds_count", backend=backend) == 3 * tokens
    assert metrics("step_rows_bucket", le="1.0") == metrics("step_rows_sum") == 3 * tokens


def test_another_process_reads_every_step(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    here = Path(__file__).parent
    subprocess.run([sys.executable, "-c", THREE_STEPS], check=True, env=environment, cwd=here)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(tmp_path))  # type: ignore[no-untyped-call]
    tested = {"scheduler": "tested"}
    assert registry.get_sample_value("engine_sampler_tokens_total", tested) == 3
    assert registry.get_sample_value("engine_sampler_step_rows_count", tested) == 3


THREE_STEPS = """
import engine_sampler_metrics
from engine_sampler.contract import StepMeasures
observer = engine_sampler_metrics.MetricsObserver()
for _ in range(3):
    observer.step_measured(StepMeasures("native", 1e-4, 0.0, 1, 1, 0, 0), "tested")
"""


def test_everything_can_be_scraped_over_http(metrics: Watched, scheduler: Scheduler) -> None:
    scheduler.add(SamplingParams(max_tokens=3, ignore_eos=True, seed=1))
    run(scheduler)
    server, thread = start_http_server(0, "127.0.0.1", metrics.registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
            families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert families["engine_sampler_tokens"].samples[0].value == 3
    assert families["engine_sampler_finished"].samples[0].labels == {
        "reason": "length",
        "scheduler": "tested",
    }


def test_the_dashboard_shows_every_metric_and_no_other(metrics: Watched) -> None:
    texts = [t["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for t in panel["targets"]]
    shown = {
        re.sub(r"_(bucket|count|total)$", "", name) for t in texts for name in re.findall(r"engine_\w+", t)
    }
    scraped = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    assert shown == {family.name for family in scraped if not family.name.endswith("_created")}


@pytest.mark.parametrize("address", ["0", "65536", "host", "host:", "9400x"])
def test_an_address_that_is_none_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_METRICS", address)
    monkeypatch.setattr(engine_sampler_metrics, "MetricsObserver", lambda: None)
    with pytest.raises(ValueError, match="PORT or HOST:PORT"):
        engine_sampler_metrics.register_observers(lambda observer: None)


@pytest.mark.parametrize(
    ("address", "where"),
    [("9400", (9400, "0.0.0.0")), ("127.0.0.1:9400", (9400, "127.0.0.1")), ("[::1]:9400", (9400, "::1"))],
)
def test_an_environment_variable_starts_a_server(
    address: str, where: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, str]] = []
    monkeypatch.setenv("ENGINE_SAMPLER_METRICS", address)
    monkeypatch.setattr(engine_sampler_metrics, "MetricsObserver", lambda: None)
    monkeypatch.setattr(engine_sampler_metrics, "start_http_server", lambda *given: started.append(given))
    engine_sampler_metrics.register_observers(lambda observer: None)
    assert started == [where]
