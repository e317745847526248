"""Requests whose text may be taken back, under random operations."""

from __future__ import annotations

import inspect
import itertools
import logging
import random
import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import Scheduler
from engine_sampler.requests.bans import BannedText
from engine_sampler.requests.detokenizer import Detokenizer
from engine_sampler.requests.request import Request
from engine_sampler.testing.search.machine import search
from engine_sampler.testing.search.searching import seconds_to_search

from ..conftest import example_count
from .plugins import plugins
from .rewinding import RewindingMachine

LENGTH = 120
"""The operations of one scheduler."""


@pytest.fixture(autouse=True)
def _plugged_in() -> Iterator[None]:
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)
    with plugins():
        yield
    logging.getLogger("engine_sampler").setLevel(logging.NOTSET)


def run_all(numbers: Iterable[int]) -> None:
    for number in numbers:
        search(partial(RewindingMachine, number), number, LENGTH)


@pytest.mark.hypothesis
def test_a_request_that_is_taken_back_follows_from_its_log() -> None:
    end, numbers = time.monotonic() + seconds_to_search(0), itertools.count(random.randrange(2**32))
    run_all(itertools.islice(numbers, example_count(8)))
    run_all(itertools.takewhile(lambda number: time.monotonic() < end, numbers))


SABOTAGE: dict[str, tuple[Any, str, Any]] = {
    "bans_that_are_not_rolled_back": (BannedText, "rollback", Detokenizer.rollback),
    "rewinds_that_are_not_moved": (BannedText, "resume", lambda text, rewinds: None),
    "draws_that_are_not_rolled_back": (Request, "_go_back_to_draws", lambda request, slots: None),
    "text_that_may_be_taken_back_but_is_sent": (
        BannedText,
        "certain",
        property(lambda text: len(text._ends) - 1),
    ),
}
"""The methods to break, and by what."""


@pytest.mark.usefixtures("without_shrinking")
@pytest.mark.parametrize("what", SABOTAGE)
def test_random_operations_detect(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SABOTAGE[what])
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a broken part raises
        run_all(range(40))


def test_every_method_of_a_scheduler_is_among_the_operations() -> None:
    methods = {name for name, _ in inspect.getmembers(Scheduler, callable) if not name.startswith("_")}
    machines = [path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
    sources = [path.read_text(encoding="utf-8") for path in machines]
    called = {name for source in sources for name in re.findall(r"\b(?:scheduler|alone)\.(\w+)\(", source)}
    assert methods - called == set(), "operations that no machine knows"
