"""Which side runs which part of a chain: the library as much as it can, the host the rest."""

from __future__ import annotations

from dataclasses import dataclass

from ...contract import Selector
from .binding import FLOATS, Answer, Layout
from .session import LibrarySession, Parts


@dataclass(frozen=True)
class Segment:
    """Consecutive parts of a chain that one side runs.

    number    the number of the library's program; None: the host runs them.
    max_rows  how many rows the library takes at once; 0 is any number.
    """

    parts: Parts
    number: int | None = None
    max_rows: int = 0


@dataclass(frozen=True)
class Requirements:
    """What a program must support: the layout of the logits, masks, processed rows, exact tokens."""

    layout: Layout
    masked: bool
    processed: bool
    exact: bool

    def met_by(self, answer: Answer | None, *, as_given: bool, processed: bool) -> bool:
        """Whether a program with this answer is sufficient, on rows `as_given` or on the host's copies.

        `processed`: whether the rows after it are needed.
        """
        if answer is None or (self.exact and not answer.promise("EXACT")):
            return False
        if processed and not answer.promise("PROCESSED"):
            return False
        if not as_given:
            return True
        reads = answer.promise("READS_ONLY") and answer.promise("ROW_FAULTS")
        strided = self.layout.compact or answer.promise("ANY_STRIDE")
        return reads and strided and (not self.masked or answer.promise("MASKS"))


CHECKED = Segment(())
"""The host reads the rows first: checks them, applies masks, and makes float32 copies."""


def segments_of(session: LibrarySession, parts: Parts, need: Requirements) -> list[Segment] | None:
    """The segments of the chain `parts`, in order; None if the host runs all of it.

    A library that cannot read the rows as given works on checked copies. One that does not run the whole
    chain runs what it can, in segments as long as possible.
    """
    for as_given in (True, False):
        if (whole := _segment(session, parts, need, as_given=as_given, processed=need.processed)) is not None:
            return [whole] if as_given else [CHECKED, whole]
    segments = _in_segments(session, parts, need)
    if all(segment.number is None for segment in segments):
        return None
    first = segments[0]
    if first.number is not None:
        processed = len(segments) > 1 or need.processed
        direct = _segment(session, first.parts, need, as_given=True, processed=processed)
        segments[:1] = [CHECKED, first] if direct is None else [direct]
    return segments


def _in_segments(session: LibrarySession, parts: Parts, need: Requirements) -> list[Segment]:
    """Maximal segments on rows that the host has checked."""
    segments: list[Segment] = []
    for part in parts:
        processed = need.processed or not isinstance(part, Selector)
        last = segments[-1] if segments else None
        joined = None
        if last is not None and last.number is not None:
            joined = _segment(session, (*last.parts, part), need, as_given=False, processed=processed)
        if joined is not None:
            segments[-1] = joined
            continue
        alone = _segment(session, (part,), need, as_given=False, processed=processed)
        if alone is None and last is not None and last.number is None:
            segments[-1] = Segment((*last.parts, part))
        else:
            segments.append(alone or Segment((part,)))
    return segments


def _segment(
    session: LibrarySession, parts: Parts, need: Requirements, *, as_given: bool, processed: bool
) -> Segment | None:
    """`parts` as a segment of the library, if it runs them as required."""
    layout, masked = (need.layout, need.masked) if as_given else (FLOATS, False)
    answer = session.query(parts, layout, masked)
    if answer is None or not need.met_by(answer, as_given=as_given, processed=processed):
        return None
    compiled = session.compile(parts)
    return None if compiled is None else Segment(parts, compiled, answer.max_rows)
