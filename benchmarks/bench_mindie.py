"""The interfaces of MindIE and ATB beside what they are built on: the times of their calls are ratios.

MindIE: `Sampler.sample` with cached requests, without ids, with all ids at every step, and with
`SamplingMetadata`, beside a step of a `Scheduler` with the same settings. ATB: the operator beside `sample`
of the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_sampler_mindie import Sampler, SamplingData, SamplingMetadata, SamplingParam
from engine_sampler_mindie.atb import TopkToppLogprobsSamplingParam, TopkToppSampling

from engine_sampler import SamplingParams, Scheduler, sample
from engine_sampler.cli.bench import rows

from .cases import ADAPTER_ROWS, MAIN, Shape
from .measure import Work, measure
from .results import ADAPTER, BENEATH

OUTPUTS = (64, 32_768)
"""The tokens of each row before the first call."""
ROOM = 2048
"""The most calls of one number, with their warm-up."""
SETTINGS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}
PENALTIES = {"repetition_penalty": 1.1}
WITHOUT, WITH_IDS, METADATA = "MindIE without ids", "MindIE with ids", "MindIE's metadata with ids"
WAYS = {
    "by weight": {"topkToppSamplingType": 1},
    "race": {"topkToppSamplingType": 2},
}
"""ATB's types, with noise for the second."""


class Caller:
    """A caller of MindIE's sampler that keeps the ids of all rows, and gives them at every step or not."""

    def __init__(self, logits: np.ndarray, length: int, series: str, settings: dict[str, float]) -> None:
        count, self.logits, self.series = len(logits), logits, series
        self.ids, self.length = np.arange(count), length
        self.output = np.tile(rows.history(logits.shape[1], 1000), (count, (length + ROOM) // 1000 + 1))
        columns = {name: np.full(count, value) for name, value in settings.items()}
        columns["top_k"] = columns["top_k"].astype(np.int64)
        self.sampler = Sampler()
        self.param = SamplingParam(**columns, seed=self.ids)
        groups = self.ids[:, None].tolist()
        sampled = {"do_sample": np.full(count, True), "seeds": self.ids}
        first, self.metadata = (
            SamplingMetadata.from_numpy(groups, is_prefill=begins, **columns, **sampled)
            for begins in (True, False)
        )
        if series == METADATA:
            self._take(first)
        else:
            self._keep(self.sampler.sample(self.logits, self._data(True), self.param)[0])

    def _data(self, is_prefill: bool) -> SamplingData:
        given = is_prefill or self.series == WITH_IDS
        output = self.output[:, : self.length] if given else None
        return SamplingData(output, output, is_prefill=is_prefill, request_ids=self.ids)

    def _take(self, metadata: SamplingMetadata) -> None:
        output = self.output[:, : self.length]
        metadata.update_token_ids(output, output)
        self._keep(self.sampler.sample(self.logits, metadata).token_ids)

    def _keep(self, tokens: np.ndarray) -> None:
        self.output[:, self.length] = tokens
        self.length += 1

    def call(self) -> None:
        """The next step."""
        if self.series == METADATA:
            self._take(self.metadata)
        else:
            self._keep(self.sampler.sample(self.logits, self._data(False), self.param)[0])


def _stepper(logits: np.ndarray, length: int, settings: dict[str, float]) -> Callable[[], object]:
    scheduler = Scheduler(logits.shape[1])
    output = np.resize(rows.history(logits.shape[1], 1000), length).tolist()
    for seed in range(len(logits)):
        scheduler.add(SamplingParams(order="mindie", seed=seed, **settings), [], output_token_ids=output)
    return lambda: scheduler.step(logits)


@pytest.mark.parametrize("series", [WITHOUT, WITH_IDS, METADATA])
@pytest.mark.parametrize("length", OUTPUTS)
@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["no penalties", "penalties"])
@pytest.mark.parametrize("count", ADAPTER_ROWS)
def bench_mindie(benchmark, count, penalties, length, series):
    settings = SETTINGS | penalties
    logits = rows.batch(MAIN, count)
    shape = Shape(f"{series}, {length} tokens, {'penalties' if penalties else 'no penalties'}", MAIN, count)
    caller = Caller(logits, length, series, settings)
    measure(benchmark, Work(caller.call), ADAPTER, shape, {BENEATH: Work(_stepper(logits, length, settings))})


@pytest.mark.parametrize("topp", [0.9, 1.0])
@pytest.mark.parametrize("topk", [50, MAIN])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", ADAPTER_ROWS)
def bench_atb(benchmark, count, way, topk, topp):
    logits = rows.batch(MAIN, count)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float16)
    inputs: dict[str, Any] = {
        "probs": probs,
        "topk": np.full((count, 1), topk, np.int32),
        "topp": np.full((count, 1), topp, np.float16),
    }
    if way == "race":
        inputs["exp"] = np.random.default_rng(1).exponential(size=probs.shape).astype(np.float16)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(**WAYS[way], randSeeds=range(count)))
    params = SamplingParams(top_k=topk if topk < MAIN else 0, top_p=topp, seed=1)
    shape = Shape(f"ATB {way}, topk {topk}, topp {topp:g}", MAIN, count)
    measure(
        benchmark,
        Work(lambda: operator(**inputs)),
        ADAPTER,
        shape,
        {BENEATH: Work(lambda: sample(logits, params))},
    )
