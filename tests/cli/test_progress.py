"""Progress is shown on a terminal, and changes nothing elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from engine_sampler.cli.progress import awaited, tracked, working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Terminal], ids=["file", "terminal"])
def test_items_come_through_in_order(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = kind()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    assert list(tracked(iter("abc"), 3, "tracking")) == list(awaited(iter("abc"), "waiting")) == list("abc")
    with working("working"):
        pass
    shown = stderr.getvalue()
    assert [word in shown for word in ("tracking", "waiting", "working")] == [stderr.isatty()] * 3


def test_without_rich_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, module, None)
    assert list(tracked(iter("abc"), 3, "")) == list(awaited(iter("abc"), "")) == list("abc")
