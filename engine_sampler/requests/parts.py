"""`RequestPart`: what follows the tokens of a request. These are the truth; a part derives from them, and can
be brought back to fewer of them, made anew from them, and copied."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..base.calling import call_plugin
from ..base.errors import PluginFault

if TYPE_CHECKING:
    from typing_extensions import Self

    from .request import Request


class RequestPart:
    """A part of a request. How it comes to know a new token is its own affair: a step gives the tokens to one
    part of all requests after the other.

    Whatever a method raises ends the request, and nothing else.
    """

    __slots__ = ()

    @abstractmethod
    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens of the output."""

    def rebuild(self, request: Request, length: int) -> None:
        """The same after a call that was interrupted, perhaps in the middle of a change of this part: what
        may have been changed by halves is made anew from the request's tokens. May be repeated."""
        self.rollback(length)

    @abstractmethod
    def fork(self) -> Self:
        """An independent copy."""


class RecordedLogprobs(list[float], RequestPart):
    """The raw logprob of every token of the output, 0 for one that was chosen elsewhere.

    top_k  how many of the likeliest tokens make the confidence of a row; with 0, none is recorded, else the
           logprobs of drawn tokens are `TokenLogprob`.
    """

    __slots__ = ("top_k",)

    def __init__(self, logprobs: Iterable[float] = (), top_k: int = 0) -> None:
        super().__init__(logprobs)
        self.top_k = top_k

    def rollback(self, length: int) -> None:
        del self[length:]

    def fork(self) -> RecordedLogprobs:
        return RecordedLogprobs(self, self.top_k)


def faults_of(title: str, method: Callable[..., Any], *arguments: Any) -> list[str]:
    """Why `method(*arguments)` of a part failed, if it did."""
    try:
        call_plugin(title, method, *arguments)
    except PluginFault as fault:
        return [str(fault)]
    return []
