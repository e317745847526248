"""Other surroundings of a plugin, and what it must leave alone."""

from __future__ import annotations

import os
import random
import sys
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine_sampler.testing.search.elsewhere import ELSEWHERE, NotThere
from engine_sampler.testing.search.surroundings import (
    anywhere,
    expect_nothing_kept,
    in_all_surroundings,
    leaving_them_alone,
    quiet,
)


def seen() -> tuple[Any, ...]:
    """What code may see of its surroundings."""
    with quiet():
        return (
            random.random(),
            threading.current_thread().name,
            np.geterr()["over"],
            hash("text"),
            sys.flags.optimize,
            os.getcwd(),
        )


def test_every_kind_of_surroundings_differs_from_the_usual_ones() -> None:
    random.seed(1)
    usual = seen()
    others = [found for _, found in in_all_surroundings(partial(eval, "seen()", globals()), seen)]
    assert len(others) == 4
    differing = [{i for i in range(1, len(usual)) if found[i] != usual[i]} for found in others]
    assert differing == [set(), {2}, {1}, {3, 4, 5}]


def test_what_cannot_be_carried_to_another_process_is_left_out() -> None:
    with pytest.raises(NotThere):
        ELSEWHERE.call(lambda: 1)
    assert len(list(in_all_surroundings(lambda: 1, lambda: 1))) == 3


def test_a_failure_in_another_process_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        ELSEWHERE.call(partial(divmod, 1, 0))
    assert ELSEWHERE.call(partial(divmod, 7, 2)) == (3, 1)


def test_a_failure_says_in_which_surroundings_it_was() -> None:
    def fails_in_threads() -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("no")

    with pytest.raises(AssertionError, match=r"fails in another thread: ValueError\('no'\)"):
        list(in_all_surroundings(fails_in_threads))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (partial(random.seed, 3), "the state of random"),
        (partial(np.random.seed, 3), "the state of np.random"),
        (partial(np.seterr, over="raise"), "np.errstate"),
        (partial(os.umask, 0o7), "the file mode mask"),
        (partial(sys.setswitchinterval, 0.004), "the interval between threads"),
        (partial(sys.path.append, "/nowhere"), "sys.path"),
        (partial(os.environ.__setitem__, "ENGINE_SAMPLER_NEVER_READ", "1"), "the environment"),
    ],
)
def test_what_changes_the_surroundings_is_found(
    change: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGINE_SAMPLER_NEVER_READ", raising=False)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    change = partial(sys.path.append, "/nowhere") if what == "sys.path" else change
    mask, interval = os.umask(0o22), sys.getswitchinterval()
    state = random.getstate()
    with np.errstate(), pytest.raises(AssertionError, match=f"it changes {what}"), leaving_them_alone("it"):
        change()
    monkeypatch.delenv("ENGINE_SAMPLER_NEVER_READ", raising=False)
    assert random.getstate() == state
    os.umask(mask)
    sys.setswitchinterval(interval)


def test_what_prints_is_found() -> None:
    with pytest.raises(AssertionError, match=r"^it prints 'so\\n'"), leaving_them_alone("it"):
        print("so")


def keeping(kept: list[Any], make: Any) -> Any:
    return lambda: kept.append(make())


@pytest.mark.parametrize(
    ("make", "what"),
    [(bytearray, "objects"), (partial(open, os.devnull, "rb", 0), "open files")],
)
def test_what_each_call_leaves_behind_is_found(make: Any, what: str) -> None:
    kept: list[Any] = []
    with pytest.raises(AssertionError, match=r"^it has \d+ .* more after 24 equal calls"):
        expect_nothing_kept("it", keeping(kept, make))
    for one in kept:
        getattr(one, "close", bytes)()
    expect_nothing_kept("it", lambda: bytearray(9))


def test_some_calls_are_made_in_another_thread() -> None:
    numbers = np.random.default_rng(0)
    threads = {anywhere(numbers, threading.get_ident) for _ in range(100)}
    assert len(threads) > 1
