"""The answers of a server that a page shows are those of a server."""

from __future__ import annotations

from .transcript import EXCHANGE, PAGE, answered


def test_the_transcript_is_what_a_server_answers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(EXCHANGE.findall(page)) == 6
    assert answered(page) == page
