"""`Compilations`: kernels are checked, and those of a new chain compiled, beside the steps, which torch runs
until then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from enum import Enum

from engine_sampler.for_backends import failure

logger = logging.getLogger("engine_sampler")

MOST_WAITING = 16
"""The most that wait to be compiled: a client may send one chain after the other."""
MOST_COMPILED = 1024
"""The most that are compiled as long as the process runs, since nothing takes machine code back."""


class Compiling(Enum):
    """How far the kernels of a chain are."""

    PENDING = "being compiled"
    READY = "compiled"
    FAILED = "cannot be compiled"


class Compilations:
    """What has been compiled for one device, by all that decides which machine code is needed. Work is done
    in one thread at a time. At limits, torch runs the chain: tokens are the same."""

    def __init__(self) -> None:
        self._states: dict[Hashable, Compiling] = {}
        self._waiting: set[Hashable] = set()
        self._turn = threading.Lock()

    def state(self, key: Hashable, compile: Callable[[], None]) -> Compiling:
        """How far the kernels for `key` are. At the first question, a thread starts to `compile` them, unless
        too many wait."""
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MOST_COMPILED:
                return Compiling.FAILED
            if len(self._waiting) >= MOST_WAITING:
                return Compiling.PENDING
            self._waiting.add(key)
            state = self._states.setdefault(key, Compiling.PENDING)
            self.start(lambda: self._finish(key, compile))
            state = self._states[key]
        return state

    def note(self, key: Hashable) -> None:
        """What `key` stands for has been done elsewhere."""
        self._states[key] = Compiling.READY

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread that does not keep the process alive."""
        threading.Thread(target=work, name="engine-sampler-kernels", daemon=True).start()

    def _finish(self, key: Hashable, compile: Callable[[], None]) -> None:
        with self._turn:
            try:
                compile()
            except BaseException as error:
                logger.warning("%s; its chain runs in torch", failure("compiling a kernel", error))
                self._states[key] = Compiling.FAILED
            else:
                self._states[key] = Compiling.READY
            finally:
                self._waiting.discard(key)
