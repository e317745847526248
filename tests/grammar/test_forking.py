"""A process may be forked while its threads use grammars: the child can use them, too."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from engine_sampler.grammar import Grammar, Limits
from engine_sampler.grammar.compiled import compiled_grammar
from engine_sampler.grammar.engines import native

from ..bytewise import fresh_tokenizer

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.skipif(native.load_library() is None, reason="the native library is missing"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # what Python 3.12 says of forks and threads
]

FORKS, SECONDS = 30, 20


def ends_well(child: int) -> bool:
    """Whether a process ends with success, in time."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_children_forked_while_a_thread_fills_masks_fill_masks() -> None:
    tokenizer = fresh_tokenizer()
    bitmask = np.zeros((1, (len(tokenizer) + 31) // 32), np.int32)
    busy = compiled_grammar(Grammar.from_regex(r"([a-y]|\w){1,3000}z").program, tokenizer, Limits())
    matcher = busy.matcher()
    expected = bitmask.copy()
    matcher.fill_bitmask(expected)
    ended = threading.Event()

    def fill_masks() -> None:
        while not ended.is_set():
            text = busy.matcher()
            for _ in range(300):
                text.validate([*b"abcdefghij" * 300])
                text.accept(ord("a"))

    thread = threading.Thread(target=fill_masks, daemon=True)
    thread.start()
    results = []
    for _ in range(FORKS):
        child = os.fork()
        if not child:
            signal.alarm(SECONDS)
            matcher.fill_bitmask(bitmask)
            same = bitmask.tobytes() == expected.tobytes() and busy.matcher().accept(ord("b"))
            sys.stdout.flush()
            os._exit(0 if same else 1)
        results.append(ends_well(child))
        if not results[-1]:
            break
    ended.set()
    thread.join()
    assert results == [True] * FORKS
