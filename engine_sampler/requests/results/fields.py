"""The fields of a step's result as data: which have an entry for each row or each request, and what that is
where the step says nothing. What copies, merges or sends results goes through these."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .step_result import StepResult

Result = TypeVar("Result", bound="StepResult")


@dataclass(frozen=True)
class PerRow:
    """A field with one entry for each row of the step.

    unknown  the entry of a row of which the step says nothing.
    """

    unknown: Any = None


@dataclass(frozen=True)
class PerRequest:
    """A field with one entry for each request, in row order.

    unknown    the entry of a request of which the step says nothing.
    attribute  the attribute of a request that has ended which gives its entry; None: only the step knows it.
    removed    what that is for a request that has been removed.
    is_id      whether the entries are ids of requests: its own where the step says nothing.

    A field with a default is empty, or None, where the step says nothing of any request.
    """

    unknown: Any = None
    attribute: str | None = None
    removed: Any = None
    is_id: bool = False


def per_row(unknown: Any) -> Mapping[str, Any]:
    """The metadata of a field, see `PerRow`."""
    return {"entries": PerRow(unknown)}


def per_request(
    unknown: Any = None, *, attribute: str | None = None, removed: Any = None, is_id: bool = False
) -> Mapping[str, Any]:
    """The metadata of a field, see `PerRequest`."""
    return {"entries": PerRequest(unknown, attribute, removed, is_id)}


class _Layout(NamedTuple):
    """The fields of a kind of results.

    entries      those that have entries, by name; all others belong to the step as a whole.
    of_requests  those that have one for each request.
    at_end       those that a request which has ended tells: (field, attribute, entry of a removed one).
    optional     those that have a default.
    """

    entries: dict[str, PerRow | PerRequest]
    of_requests: dict[str, PerRequest]
    at_end: Sequence[tuple[str, str, Any]]
    optional: set[str]


@cache
def _layout_of(kind: Any) -> _Layout:
    entries = {f.name: f.metadata["entries"] for f in fields(kind) if "entries" in f.metadata}
    of_requests = {name: of for name, of in entries.items() if isinstance(of, PerRequest)}
    at_end = [(name, of.attribute, of.removed) for name, of in of_requests.items() if of.attribute]
    optional = {f.name for f in fields(kind) if (f.default, f.default_factory) != (MISSING, MISSING)}
    return _Layout(entries, of_requests, at_end, optional)


def entries_of(kind: Any) -> Mapping[str, PerRow | PerRequest]:
    """The fields of a kind of results that have entries; all others belong to the step as a whole."""
    return _layout_of(kind).entries


def entries_at_end(kind: Any, request: Any) -> dict[str, Any]:
    """What a request that has ended tells, or its record, by field; None for one that has been removed."""
    told = _layout_of(kind).at_end
    if request is None:
        return {name: removed for name, _, removed in told}
    return {name: getattr(request, attribute) for name, attribute, _ in told}


def tell_end(result: StepResult, i: int, request: Any) -> None:
    """Let request number i, which may have ended, tell the result of it."""
    kind: Any = type(result)
    for name, attribute, _ in _layout_of(kind).at_end:
        getattr(result, name)[i] = getattr(request, attribute)


def put_entry(result: StepResult, name: str, i: int, entry: Any) -> None:
    """Set an entry of a field, which is filled if the step has said nothing of any request so far."""
    entries = getattr(result, name)
    if entries is None or not len(entries):
        entries = _unknown(result, entries_of(type(result))[name])
        setattr(result, name, entries)
    entries[i] = entry


def entries_said(result: StepResult, blank: StepResult) -> dict[str, dict[int, Any]]:
    """The entries of a result that are others than those of `blank`, a result which knows nothing of the same
    rows and requests: by field and index."""
    said: dict[str, dict[int, Any]] = {}
    for name, of in entries_of(type(result)).items():
        entries, others = _list(getattr(result, name)), _list(getattr(blank, name))
        both = zip(entries, others or _unknown(result, of), strict=True) if entries else ()
        changed = {i: entry for i, (entry, other) in enumerate(both) if entry != other}
        if changed:
            said[name] = changed
    return said


def with_left(result: Result, request_ids: Sequence[Any], left: Iterable[tuple[int, Any]]) -> Result:
    """The result for all `request_ids` that a step names, from that for those which had not left before it.

    left  the index of each that had, and the request; None for one that has been removed.
    """
    kind: Any = type(result)
    gone = dict(left)
    ends = {i: entries_at_end(kind, request) for i, request in gone.items()}
    whole: dict[str, Any] = {}
    layout = _layout_of(kind)
    for name, of in layout.of_requests.items():
        if name in layout.optional and not getattr(result, name):
            continue
        there = iter(getattr(result, name))
        whole[name] = [
            (request_id if of.is_id else ends[i].get(name, copy.copy(of.unknown)))
            if i in gone
            else next(there)
            for i, request_id in enumerate(request_ids)
        ]
    return replace(result, skipped=list(gone), **whole)


def copied(result: Result) -> Result:
    """A result that can be changed without changing this one."""
    return replace(result, **{f.name: _copied(getattr(result, f.name)) for f in fields(result) if f.init})


def _unknown(result: StepResult, of: PerRow | PerRequest) -> list[Any]:
    """The entries of a field in which the result says nothing."""
    if isinstance(of, PerRow):
        return [copy.copy(of.unknown) for _ in range(len(result.token_ids))]
    return [request_id if of.is_id else copy.copy(of.unknown) for request_id in result.request_ids]


def _list(entries: Any) -> list[Any]:
    return [] if entries is None else [*getattr(entries, "tolist", lambda: entries)()]


def _copied(part: Any) -> Any:
    if isinstance(part, list):
        return [entry.copy() if type(entry) is dict else entry for entry in part]
    return copy.deepcopy(part)
