"""`DeferredBackend`: a backend whose module is imported when it is first needed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arithmetic import LogitRows, Logprobs
from ..base.errors import INTERRUPTIONS, BackendError, failure
from ..base.forking import fork_safe
from .backends import Backend, Batch
from .samplers import Sampler, Selection, Selector

if TYPE_CHECKING:
    from .chains import Chain
    from .rows import Rows


class DeferredBackend(Backend):
    """A backend whose module is imported when it is first asked for more than its name.

    A plugin registers one in place of a backend whose module costs much to import. Logits on the host do not
    need it, so that a program without a device starts as if the plugin were not installed:

        register(DeferredBackend("mine", "my_plugin.backend:MyBackend"))

    name   as in the class.
    place  "module:class"; the class is called without arguments, once.
    exact, hosts_the_rest  as in the class.

    Everything else is the class's. If its module cannot be imported, or the class is not as declared here,
    `reason` says so, and the backend reads from no device.
    """

    def __init__(self, name: str, place: str, *, exact: bool = True, hosts_the_rest: bool = False) -> None:
        self.name = name  # type: ignore[misc]
        self.exact = exact  # type: ignore[misc]
        self.hosts_the_rest = hosts_the_rest  # type: ignore[misc]
        self._place = place
        self._backend: Backend | None = None
        self._fault = ""
        self._lock = fork_safe(threading.RLock())

    def loaded(self) -> Backend:
        """The backend itself; raises `BackendError` if it cannot be loaded."""
        if self._backend is None and not self._fault:
            with self._lock:
                if self._backend is None and not self._fault:
                    self._load()
        if self._backend is None:
            raise BackendError(self._fault)
        return self._backend

    @property
    def reason(self) -> str:  # type: ignore[override]
        """Why it cannot be used on this machine; loads it."""
        try:
            return self.loaded().reason
        except BackendError as error:
            return str(error)

    @property
    def target(self) -> str:
        """The instruction set or device that it reports, empty if it reports none."""
        return str(getattr(self.loaded(), "target", ""))

    def score(self, device: str) -> float:
        return self.loaded().score(device)

    def reads_from(self, device: str) -> bool:
        return self.loaded().reads_from(device)

    def supports(self, sampler: Sampler | Selector) -> bool:
        return self.loaded().supports(sampler)

    def runs(self, part: Sampler | Selector, chain: Chain) -> bool:
        return self.loaded().runs(part, chain)

    def runs_as(self, sampler: Sampler | Selector) -> str:
        return self.loaded().runs_as(sampler)

    def compile(self, chain: Chain) -> Any:
        return self.loaded().compile(chain)

    def apply(self, plan: Any, logits: np.ndarray, rows: Rows) -> None:
        self.loaded().apply(plan, logits, rows)

    def select(self, plan: Any, logits: np.ndarray, rows: Rows) -> Selection:
        return self.loaded().select(plan, logits, rows)

    def run(self, batch: Batch) -> None:
        self.loaded().run(batch)

    def begin(self, batch: Batch) -> Callable[[], None] | None:
        return self.loaded().begin(batch)

    def draws_ahead(self, plan: Any) -> bool:
        return self.loaded().draws_ahead(plan)

    def follows_drafts(self, plan: Any, tokens: int) -> bool:
        return self.loaded().follows_drafts(plan, tokens)

    def repeated(self, cache: dict[Any, Any]) -> Callable[[np.ndarray], bool] | None:
        return self.loaded().repeated(cache)

    def process(self, batch: Batch) -> Any:
        return self.loaded().process(batch)

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> Any:
        return self.loaded().prepare_masks(bitmask, rows, device)

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        return self.loaded().logprobs(logits, token_ids, top_n)

    def _load(self) -> None:
        try:
            module, _, name = self._place.partition(":")
            backend = getattr(importlib.import_module(module), name)()
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._fault = failure(f"importing {self._place}", error)
            return
        self._fault = self._objection(backend)
        if not self._fault:
            self._backend = backend

    def _objection(self, backend: Any) -> str:
        """Why `backend` is not what it is declared to be; empty if it is."""
        if not isinstance(backend, Backend):
            return f"{self._place} is not a Backend"
        for name in ("api", "name", "exact", "hosts_the_rest"):
            declared, actual = getattr(self, name), getattr(backend, name)
            if actual != declared:
                return f"{self._place} has {name}={actual!r}; its DeferredBackend has {declared!r}"
        return ""
