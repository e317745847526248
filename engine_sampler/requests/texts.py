"""The texts of all requests of a step. The loops write `RequestEnd.attempt` out: every call counts here."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from .detokenizer import MatchedEnds
from .request import Request


def extend_texts(
    requests: Sequence[Request], streamed: Iterable[int], token_ids: Sequence[int], refused: Container[int]
) -> dict[int, MatchedEnds]:
    """Give the texts of the requests at `streamed` their tokens, except those `refused`; returns the ends
    found in them, by index."""
    ends_by_index: dict[int, MatchedEnds] = {}
    for i in streamed:
        if refused and i in refused:
            continue
        request = requests[i]
        try:
            ends = request.text.push(token_ids[i])  # type: ignore[union-attr]
        except BaseException as fault:
            request.leave_off("the text", fault, is_bounded=False)
            ends = ()
        if ends or not request.live:
            ends_by_index[i] = ends
    return ends_by_index


def take_texts(
    requests: Sequence[Request], streamed: Iterable[int], step: int, texts: list[str | None]
) -> list[int]:
    """Put the texts that have become certain in the step of this number in their places; returns the indices
    of the requests that have failed."""
    failed = []
    for i in streamed:
        request = requests[i]
        try:
            texts[i] = request.text.take(step)  # type: ignore[union-attr]
        except BaseException as fault:
            request.leave_off("the text", fault, is_bounded=False)
            texts[i] = ""
            failed.append(i)
    return failed
