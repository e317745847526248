"""The same requests on the simulated device and on NumPy, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.for_backends import LibraryBackend
from tests.random_chains import random_logits, tokenizer

VOCAB = 60
Settings = Mapping[str, Any]


class Twins:
    """A scheduler on the device, and one on NumPy, which are given the same.

    results  of the last step: of the device, and of NumPy.
    """

    def __init__(
        self,
        device: Any,
        settings: Sequence[Settings],
        *,
        dtype: str = "float32",
        vocab: int = VOCAB,
        backend: Any = None,
        pool: bool = True,
        **options: Any,
    ) -> None:
        self.device, self.dtype, self.vocab = device, dtype, vocab
        allocate = device.pool if pool else None
        self.backend = backend or LibraryBackend(device.path, allocate=allocate)
        self.own, self.reference = (
            Scheduler(vocab, tokenizer(vocab), backend=one, **options) for one in (self.backend, "numpy")
        )
        self.random = np.random.default_rng(5)
        self.results: tuple[Any, Any] = (None, None)
        for seed, given in enumerate(settings):
            self.add(given, seed)

    def add(self, settings: Settings, seed: int, **options: Any) -> None:
        """A request with these settings and a short prompt, on both."""
        given = {"seed": seed, **settings}
        prompt = [1, 2, 3, 1, 2]
        for scheduler in (self.own, self.reference):
            scheduler.add(SamplingParams(**given), prompt, **options)

    def on_both(self, change: Callable[[Scheduler], object]) -> None:
        """Do the same to both schedulers; what one of them raises, the other must raise."""
        outcomes = []
        for scheduler in (self.own, self.reference):
            try:
                change(scheduler)
                outcomes.append("")
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]

    def logits(self, rows: int) -> np.ndarray:
        """float32 [rows, vocab] that every dtype holds."""
        values = random_logits(self.random, rows, self.vocab)
        return np.clip(values, -1e4, 1e4).astype(np.float16).astype(np.float32).round()

    def step(
        self,
        logits: np.ndarray | None = None,
        *,
        only_own: bool = False,
        half: Callable[[Any], object] | None = None,
    ) -> None:
        """One step of both with the same logits; the results must be equal. The reference goes first: if the
        device's step raises, `only_own` repeats that alone. `half` is done with the begun step before it is
        finished, which may give it up."""
        ids = self.own.request_ids
        values = self.logits(len(ids)) if logits is None else logits
        with self.device.undisturbed():
            array = self.device.array(values, self.dtype)
        expected = self.results[1] if only_own else self.reference.step(values)
        self.results = None, expected
        self.results = self._stepped(array, half), expected
        self.compare()

    def _stepped(self, array: Any, half: Callable[[Any], object] | None) -> Any:
        if half is None:
            return self.own.step(array)
        begun = self.own.begin(array)
        half(begun)
        try:
            return begun.finish()
        except RuntimeError:  # given up
            return self.own.step(array)

    def compare(self) -> None:
        own, reference = self.results
        assert own.token_ids.tolist() == reference.token_ids.tolist()
        assert own.errors == reference.errors
        assert own.finish_reasons == reference.finish_reasons
        assert self.own.request_ids == self.reference.request_ids

    def run(self, steps: int) -> None:
        """Some steps, until all requests have ended."""
        for _ in range(steps):
            if self.own.request_ids:
                self.step()
