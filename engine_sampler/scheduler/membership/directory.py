"""`Directory`: all requests of a scheduler by id."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ...base.errors import quoted
from ...requests.ending import RequestError
from ...requests.request import Request
from ...requests.results import RequestId
from ..beam_groups import BeamGroup

MOST_REMOVED = 1 << 14
"""The most ids of removed requests that are remembered, to skip their rows in a step."""


class Directory:
    """The requests of a scheduler by id.

    known      all requests that have not been removed.
    live       those that have not finished and are not suspended, in order of arrival.
    suspended  the ids of those that have been taken out of the live ones.
    groups     the beam search of each request that belongs to one.
    """

    def __init__(self) -> None:
        self.known: dict[RequestId, Request] = {}
        self.live: dict[RequestId, Request] = {}
        self.suspended: set[RequestId] = set()
        self.groups: dict[RequestId, BeamGroup] = {}
        self._removed: OrderedDict[RequestId, None] = OrderedDict()
        """The ids of the requests removed last."""
        self._numbers = itertools.count()

    # --- look-up ---------------------------------------------------------------------------------

    def find(self, request_id: RequestId) -> Request:
        """The request of this id, live or finished; raises `RequestError` for an unknown id."""
        try:
            return self.known[request_id]
        except KeyError:
            raise RequestError(f"request {quoted(request_id)} is unknown") from None

    def find_live(self, request_id: RequestId) -> Request:
        """The live request of this id; raises `RequestError` if it has finished, is suspended, or waits."""
        request = self.find(request_id)
        if request_id not in self.live:
            raise RequestError(f"request {quoted(request_id)} {self._absence(request)}")
        return request

    def find_suspended(self, request_id: RequestId) -> Request:
        """The suspended request of this id."""
        request = self.find(request_id)
        if request_id not in self.suspended:
            raise RequestError(f"request {quoted(request_id)} is not suspended")
        return request

    def find_movable(self, request_id: RequestId) -> Request:
        """A suspended request, or a live one as in `find_single`."""
        return self.find(request_id) if request_id in self.suspended else self.find_single(request_id)

    def find_single(self, request_id: RequestId) -> Request:
        """A live request that does not belong to a beam search, and has not failed since the last step."""
        request = self.find_live(request_id)
        if not request.live:
            raise RequestError(f"request {quoted(request_id)} has finished ({request.finish_reason})")
        if request_id in self.groups:
            raise RequestError(
                f"request {quoted(request_id)} belongs to a beam search, which alone continues it"
            )
        return request

    def find_seated(self, request_id: RequestId) -> Request:
        """A live request that has a slot."""
        request = self.find_live(request_id)
        if request.slot < 0:
            raise RequestError(f"request {quoted(request_id)} joins after the step that is running")
        return request

    def has_left(self, request_id: RequestId) -> bool:
        """Whether the request of this id has been removed or has finished."""
        request = self.known.get(request_id)
        return request_id in self._removed if request is None else not request.live

    def groups_in(self, requests: Iterable[Request]) -> list[BeamGroup]:
        """The beam searches that `requests` belong to, each once."""
        groups = (self.groups.get(request.id) for request in requests)
        return list({id(group): group for group in groups if group is not None}.values())

    def free_id(self, request_id: RequestId | None) -> RequestId:
        """`request_id`, or a new integer; raises `RequestError` if the id is taken."""
        if request_id is None:
            return next(n for n in self._numbers if n not in self.known)
        if request_id in self.known:
            raise RequestError(f"request id {quoted(request_id)} is taken")
        return request_id

    # --- changes ---------------------------------------------------------------------------------

    def check_ids(self, requests: Iterable[Request]) -> None:
        """Raise `RequestError` if an id is taken."""
        for request in requests:
            self.free_id(request.id)

    def forget(self, requests: Iterable[Request]) -> None:
        """Make requests unknown that have not joined."""
        for request in requests:
            for places in (self.known, self.live):
                if places.get(request.id) is request:
                    del places[request.id]
                    self.groups.pop(request.id, None)

    def hide(self, request: Request, group: BeamGroup | None, ending: Sequence[Request]) -> None:
        """Nobody finds a request that is removed, nor those that end with it among the live ones."""
        if self.known.get(request.id) is request:
            self._remember_removed(request.id)
            del self.known[request.id]
            self.suspended.discard(request.id)
        for other in ending:
            if self.live.get(other.id) is other:
                del self.live[other.id]
        if group is not None:
            group.aborted = True
            for request_id in group.request_ids:
                if self.groups.get(request_id) is group:
                    del self.groups[request_id]

    def retire(self, request: Request) -> None:
        """Take a request that has ended out of the live ones, unless it has been removed meanwhile."""
        if self.live.get(request.id) is request:
            del self.live[request.id]
            self.groups.pop(request.id, None)

    # --- inside ----------------------------------------------------------------------------------

    def _absence(self, request: Request) -> str:
        """Why a known request is not live."""
        if request.id in self.suspended:
            return "is suspended"
        if request.live:
            return "waits for its grammar, which is being compiled"
        return f"has finished ({request.finish_reason})"

    def _remember_removed(self, request_id: RequestId) -> None:
        self._removed[request_id] = None
        self._removed.move_to_end(request_id)
        if len(self._removed) > MOST_REMOVED:
            self._removed.popitem(last=False)
