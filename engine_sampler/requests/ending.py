"""`RequestEnd`: how a request ends, by a verdict or by what one of its parts raises."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.calling import call_plugin
from ..base.errors import INTERRUPTIONS, PluginFault, failure
from ..contract import UnfinishedError
from .budget import MOST_TURNS, Share

if TYPE_CHECKING:
    from .detokenizer import Detokenizer


class RequestError(ValueError):
    """A request id is unknown, taken, or belongs to a request that has finished."""


class RequestEnd:
    """The side of a request that can end.

    share           what it has had of the budget of its steps.
    finish_reason   None while it continues; `stop_reason` and `error` say more.
    has_lacked_memory  whether a step of it has been interrupted for want of memory.
    """

    text: Detokenizer | None

    def __init__(self) -> None:
        self.share = Share()
        self.finish_reason: str | None = None
        self.stop_reason: Any = None
        self.error: str | None = None
        self._ending = 0
        """The number of its end among all ends of requests."""
        self.has_lacked_memory = False

    @property
    def live(self) -> bool:
        return self.finish_reason is None

    def finish(self, finish_reason: str, stop_reason: Any = None, cut: int = 0) -> None:
        """End the request; text held back becomes certain, except for its last `cut` bytes."""
        if self.text is not None and self.live:
            try:
                call_plugin("the text", self.text.close, cut)
            except PluginFault as fault:
                self.error, finish_reason, stop_reason = str(fault), "error", None
        self._ending = next(_ENDINGS)
        self.finish_reason, self.stop_reason = finish_reason, stop_reason

    def fail(self, error: str) -> None:
        """End the request with finish_reason `error`."""
        self.error = error
        self.finish("error")

    # --- by a part of it -------------------------------------------------------------------------

    def attempt(
        self,
        part: str,
        method: Callable[..., Any],
        *arguments: Any,
        otherwise: Any = None,
        is_bounded: bool = False,
    ) -> Any:
        """`method(*arguments)`: how a step calls what belongs to the request. Whatever that raises concerns
        this request alone, see `leave_off`, and `otherwise` is returned. What is called for each row has this
        written out."""
        try:
            return method(*arguments)
        except BaseException as fault:
            self.leave_off(part, fault, is_bounded)
            return otherwise

    def leave_off(self, part: str, fault: BaseException, is_bounded: bool = True) -> None:
        """A part of it has raised `fault`: UnfinishedError postpones it if that part `is_bounded`, anything
        else ends it, unless it interrupts the call."""
        self.let_pass(fault)
        if not (is_bounded and issubclass(type(fault), UnfinishedError)):
            self.fail(reason_of(part, fault))
        elif self.share.turns >= MOST_TURNS:
            self.fail(f"{part} has not finished in {MOST_TURNS} turns")
        else:
            self.share.postponed = True

    def let_pass(self, fault: BaseException) -> None:
        """Raise what interrupts the call that runs now, and is no fault of this request. Memory may run out
        once: the call is repeated then, and must not fail for ever."""
        kind = type(fault)  # isinstance would ask the exception, which may be a plugin's
        is_scarce = issubclass(kind, MemoryError) and not self.has_lacked_memory
        self.has_lacked_memory |= is_scarce
        if is_scarce or issubclass(kind, INTERRUPTIONS):
            raise fault


def reason_of(part: str, fault: BaseException) -> str:
    """Why a request ends of which a part has raised `fault`."""
    is_worded = issubclass(type(fault), (PluginFault, RequestError))
    return str(fault) if is_worded else failure(part, fault)


_ENDINGS = itertools.count(1)


latest_ending = _ENDINGS.__next__
"""A number that is greater than those of all ends of requests so far, and smaller than all later ones."""
