"""Who runs which part of a chain: a library as much as it can, the host the rest."""

from __future__ import annotations

from dataclasses import dataclass

from ...contract import Selector
from .binding import FLOATS, Answer, Layout
from .session import Parts, Session


@dataclass(frozen=True)
class Stretch:
    """Neighbouring parts of a chain that one side runs.

    number    of the library's program; None: the host runs them.
    max_rows  that the library takes at once; 0 is any number.
    """

    parts: Parts
    number: int | None = None
    max_rows: int = 0


@dataclass(frozen=True)
class Need:
    """What is asked for: the layout of the logits, masks, rows after the samplers, exact tokens."""

    layout: Layout
    masked: bool
    processed: bool
    exact: bool

    def met_by(self, answer: Answer | None, *, given: bool, processed: bool) -> bool:
        """Whether a program with this answer will do, on rows as `given` or on the host's copies.

        `processed`: whether the rows after it are needed.
        """
        if answer is None or (self.exact and not answer.promise("EXACT")):
            return False
        if processed and not answer.promise("PROCESSED"):
            return False
        if not given:
            return True
        reads = answer.promise("READS_ONLY") and answer.promise("ROW_FAULTS")
        strided = self.layout.compact or answer.promise("ANY_STRIDE")
        return reads and strided and (not self.masked or answer.promise("MASKS"))


CHECKED = Stretch(())
"""The host reads the rows first: checks them, applies masks, and makes float32 copies."""


def route(session: Session, parts: Parts, need: Need) -> list[Stretch] | None:
    """The stretches of the chain `parts`, in order; None if the host runs all of it.

    A library that cannot read rows as they are given works on checked copies. One that does not run
    the whole chain runs what it can of it, in stretches as long as possible.
    """
    for given in (True, False):
        if (whole := _stretch(session, parts, need, given=given, processed=need.processed)) is not None:
            return [whole] if given else [CHECKED, whole]
    stretches = _in_stretches(session, parts, need)
    if all(stretch.number is None for stretch in stretches):
        return None
    first = stretches[0]
    if first.number is not None:
        processed = len(stretches) > 1 or need.processed
        direct = _stretch(session, first.parts, need, given=True, processed=processed)
        stretches[:1] = [CHECKED, first] if direct is None else [direct]
    return stretches


def _in_stretches(session: Session, parts: Parts, need: Need) -> list[Stretch]:
    """Maximal stretches on rows that the host has checked."""
    stretches: list[Stretch] = []
    for part in parts:
        processed = need.processed or not isinstance(part, Selector)
        last = stretches[-1] if stretches else None
        joined = None
        if last is not None and last.number is not None:
            joined = _stretch(session, (*last.parts, part), need, given=False, processed=processed)
        if joined is not None:
            stretches[-1] = joined
            continue
        alone = _stretch(session, (part,), need, given=False, processed=processed)
        if alone is None and last is not None and last.number is None:
            stretches[-1] = Stretch((*last.parts, part))
        else:
            stretches.append(alone or Stretch((part,)))
    return stretches


def _stretch(session: Session, parts: Parts, need: Need, *, given: bool, processed: bool) -> Stretch | None:
    """`parts` as the library runs them, if it does so as needed."""
    layout, masked = (need.layout, need.masked) if given else (FLOATS, False)
    answer = session.ask(parts, layout, masked)
    if answer is None or not need.met_by(answer, given=given, processed=processed):
        return None
    compiled = session.compile(parts)
    return None if compiled is None else Stretch(parts, compiled, answer.max_rows)
