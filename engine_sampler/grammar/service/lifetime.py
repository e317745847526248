"""How long a worker lives: not longer than the engine's process, and not much longer than a grammar may take.

The kernel ends it where it can, since threads of Python do not run while something holds the interpreter's
lock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1


def end_with(engine: int) -> None:
    """On Linux, let the kernel kill this process when the process that has started it ends, `engine`; end at
    once if it has ended already. Elsewhere, the end of standard input is the sign."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ImportError, AttributeError, OSError):  # Python or its C library lacks it
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != engine and not _is_alive(engine):  # an executable may start Python in its turn
        os._exit(0)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End the process if what is within takes longer. Without an effect on Windows."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends it, without a thread of Python's
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
