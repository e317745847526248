"""The process around a call, which a library must leave as it finds it."""

from __future__ import annotations

import ctypes
import functools
import locale
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_POSIX = sys.platform != "win32"
_SYSTEM = ctypes.CDLL(None) if _POSIX else None
_MOST = 512
"""Bytes that a floating-point environment or a signal's action has at most."""

_UMASK = threading.Lock()


class Surroundings:
    """What the process and the calling thread are like: taken when this is made.

    `changes` names what is different now, and undoes what would disturb the checks to come.
    """

    def __init__(self) -> None:
        self._floats = _float_environment()
        self._before = {name: read() for name, read in PROCESS.items()}

    def changes(self) -> list[str]:
        """What is not as it was, as sentences about the library."""
        changed = [what for what, read in PROCESS.items() if read() != self._before[what]]
        if changed:
            self._restore()
        return [f"it leaves {what} changed" for what in changed]

    def _restore(self) -> None:
        if _SYSTEM is not None:
            _SYSTEM.fesetenv(self._floats)
        os.chdir(self._before[_FOLDER])
        locale.setlocale(locale.LC_ALL, self._before[_LOCALE])
        for number, was_open in enumerate(self._before.get(_STANDARD, ())):
            if was_open and not _is_open(number):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)  # that opens the same one: the least is free


def _float_environment() -> Any:
    kept = ctypes.create_string_buffer(_MOST)
    if _SYSTEM is not None:
        _SYSTEM.fegetenv(kept)
    return kept


def _float_modes() -> tuple[Any, ...]:
    """Rounding, and whether denormals are results and operands; on x86 the control bits of both units."""
    tiny = np.array([1e-40, -1e-40], np.float32)
    kept = bool((tiny * np.float32(0.5)).all()), bool((tiny * np.float32(2**20)).all())
    if _SYSTEM is None:
        return kept
    control: tuple[int, ...] = ()
    if platform.machine() in ("x86_64", "AMD64"):
        raw = _float_environment().raw
        control = int.from_bytes(raw[:2], "little"), int.from_bytes(raw[28:32], "little") & 0xFFC0
    return (*kept, _SYSTEM.fegetround(), *control)


def _signal_handlers() -> list[bytes]:
    """The addresses of the handlers: what follows them in the struct is not filled in as a whole."""
    actions: list[bytes] = []
    if _SYSTEM is None:
        return actions
    for number in sorted(signal.valid_signals()):
        action = ctypes.create_string_buffer(_MOST)
        _SYSTEM.sigaction(int(number), None, action)
        actions.append(action.raw[: ctypes.sizeof(ctypes.c_void_p)])
    return actions


def _environment() -> list[bytes]:
    if _SYSTEM is None:
        return []
    lines = ctypes.POINTER(ctypes.c_char_p).in_dll(_SYSTEM, "environ")
    found: list[bytes] = []
    while lines and (line := lines[len(found)]) is not None:
        found.append(line)
    return found


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _umask() -> int:
    with _UMASK:
        mask = os.umask(0o77)
        os.umask(mask)
    return mask


def _limits_of_resources() -> list[Any]:
    import resource  # which Windows lacks

    names = sorted(name for name in vars(resource) if name.startswith("RLIMIT_"))
    return [resource.getrlimit(getattr(resource, name)) for name in names]


_NUMBERS = ctypes.create_string_buffer(128)
"""The state of C's `rand` from now on, of the size that it has in glibc: its numbers are the same."""


@functools.cache
def _numbers_are_kept_here() -> None:
    if _SYSTEM is not None:
        _SYSTEM.initstate(4711, _NUMBERS, ctypes.c_size_t(len(_NUMBERS)))


def _random_numbers() -> bytes:
    _numbers_are_kept_here()
    return _NUMBERS.raw


def open_files() -> int:
    """How many descriptors the process has; 0 where the system does not say."""
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


_FOLDER, _LOCALE, _STANDARD = "the current folder", "the locale", "standard input and output"

PROCESS: Mapping[str, Callable[[], Any]] = {
    _FOLDER: os.getcwd,
    _LOCALE: lambda: locale.setlocale(locale.LC_ALL),
    "the floating-point modes (rounding, denormals)": _float_modes,
    "the environment's variables": _environment,
    "the handlers of signals": _signal_handlers,
    "the file mode mask": _umask,
    **(
        {
            "the signals that are blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            "the alarm timer": lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
            "the priority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
            "the limits of resources": _limits_of_resources,
            "the state of C's rand": _random_numbers,
            _STANDARD: lambda: [_is_open(number) for number in range(3)],
        }
        if _POSIX
        else {}
    ),
    **(
        {
            "the processors of the thread": lambda: os.sched_getaffinity(0),
            "the name of the thread": lambda: Path("/proc/thread-self/comm").read_bytes(),
        }
        if sys.platform == "linux"
        else {}
    ),
}
"""What code shares with all that runs in its process, by what it is called."""
