"""The logprobs that a call on a device reports."""

from __future__ import annotations

from dataclasses import replace

from ....backends.library.header import number
from ..bench import expected_of
from ..observing import LibraryStep, Observed
from ..passes import wrong_entry


def wrong_reports(step: LibraryStep, observed: Observed) -> str | None:
    """The first row with other logprobs than those of its token, in a step that reports some; None if all are
    right."""
    if step.logprobs is None or observed.code != number("ES_OK"):
        return None
    entries = [(replace(group, want_processed=True), parts) for group, parts in step.entries]
    return wrong_entry(
        step, replace(observed, survivors=expected_of(replace(step, entries=entries)).survivors)
    )
