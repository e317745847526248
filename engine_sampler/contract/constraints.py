"""What constrains a request, and what reads its answer, as a scheduler sees them.

A `ConstraintReader` makes a constraint of what a request asks for; it is registered like a sampler, and the
grammar engine of this package is one. The core knows no other way to a grammar.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol

import numpy as np

from ..base.calling import call_for_add
from ..base.errors import INTERRUPTIONS
from .matchers import Matcher, is_bounded
from .vocabulary import Vocabulary
from .work import Work


class ConstraintError(ValueError):
    """A constraint cannot be used; the message gives the reason."""


class RuleSettings(Protocol):
    """The sampling parameters that parts of a constraint set.

    settings  all of them: the name of each part, and its parameters by name.
    """

    @property
    def settings(self) -> Sequence[tuple[str, tuple[tuple[str, Any], ...]]]: ...

    def present(self, matcher: Any) -> int:
        """The number, from 1, of the settings that hold for the next token of a matcher's text; 0 for
        none."""


class Compiled(ABC):
    """A constraint for one vocabulary, shared by requests and threads.

    settings      the sampling parameters that its parts set; None for none.
    unenforced    what is asked for but not enforced, in words.
    has_captures  whether parts of its texts are captured.

    A matcher whose attribute `compiled` is a `Compiled` tells a scheduler of these.
    """

    settings: RuleSettings | None = None
    unenforced: Sequence[str] = ()
    has_captures: bool = False

    @abstractmethod
    def matcher(self) -> Matcher:
        """A new matcher, at the beginning of a text."""

    def captures(self, token_ids: Sequence[int], *, begin: int = 0, steps: int | None = None) -> Any:
        """What its parts match in the text of `token_ids`, of which the first `begin` come before it. Raises
        `ConstraintError` if that takes more than `steps`."""
        return {}


class PendingConstraint(Protocol):
    """A constraint that is being compiled.

    future         done when it is compiled, or cannot be.
    has_succeeded  whether it is compiled.
    """

    @property
    def future(self) -> Future[Any]: ...

    @property
    def has_succeeded(self) -> bool: ...

    def matcher(self, vocabulary: Vocabulary) -> Any:
        """A new matcher, once the future is done; None if a sampler takes the constraint. Raises
        `ParameterError`."""


class ConstraintReader:
    """Makes constraints of what requests ask for: the structured parameters (`json_schema`, `regex`, …), or
    the argument `grammar` of `Scheduler.add`.

    name   what a deployment chooses it by (`Scheduler(grammar_engine=…)`, `ENGINE_SAMPLER_GRAMMAR_ENGINE`).
    takes  the structured parameters and those of their options that it reads; None for all. A request that
           sets another one is refused before it is asked.

    Every error is a `ParameterError` that names the parameter; nothing has changed then. Methods are called
    from any thread.
    """

    api: ClassVar[int] = 1
    name: ClassVar[str]
    takes: ClassVar[Collection[str] | None] = None

    def compiled(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        """What the structured parameter in `params` asks for, or else `grammar`: an object with `matcher()`,
        usually a `Compiled`; None if neither asks for anything."""
        raise NotImplementedError

    def matcher(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        """A new matcher of what `compiled` returns; None for None."""
        compiled = self.compiled(params, grammar, vocabulary)
        return None if compiled is None else compiled.matcher()

    def start(
        self,
        params: Mapping[str, Any],
        grammar: Any,
        vocabulary: Vocabulary,
        compiler: Any,
        client: Hashable,
    ) -> PendingConstraint | None:
        """Start to compile in the background by `compiler`, in the turn of `client`. None if there is nothing
        to compile there: `matcher` is called then."""
        return None

    def prepare(self, vocabulary: Vocabulary) -> None:
        """Do the work now that the first constraint for a vocabulary would do; by default there is none."""

    def read_body(self, body: dict[str, Any], tool_family: str | None, reasoning: str) -> Mapping[str, Any]:
        """Take from a body the keys that ask for structured output in other words.

        These are `response_format`, `tools` and others. Returns the structured parameters that they stand
        for. All readers are asked, whichever of them a scheduler uses.

        tool_family, reasoning  as in `SamplingParams.from_dict`
        """
        return {}

    def check_limits(self, limits: Any) -> None:
        """Raise `ParameterError` for an argument `grammar_limits` that it does not take."""

    def fill_masks(
        self, matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
    ) -> dict[int, BaseException]:
        """`fill_each`; a reader whose matchers can be filled together does so in one call. Other matchers may
        be among them."""
        return fill_each(matchers, bitmask, rows, work)


class AnswerParser(ABC):
    """Reads the answer of a request as it grows.

    is_finished  whether `finish` has been called.
    takes_ids    whether it is fed with token ids.

    Its length is the number of tokens that it has been fed with.
    """

    @property
    @abstractmethod
    def is_finished(self) -> bool: ...

    @property
    @abstractmethod
    def takes_ids(self) -> bool: ...

    @abstractmethod
    def __len__(self) -> int: ...

    def shared_steps(self, steps: int) -> Any:
        """What bounds the work of several parsers of this class together: their argument `steps`. By default,
        each may take this many."""
        return steps

    @abstractmethod
    def feed(self, pieces: Iterable[int] | str) -> list[Any]:
        """The events of some more tokens."""

    @abstractmethod
    def finish(self, *, steps: Any = None) -> list[Any]:
        """The events at the end of the answer."""

    @abstractmethod
    def rollback(self, n: int) -> None:
        """Undo the last n tokens."""

    @abstractmethod
    def fork(self) -> AnswerParser:
        """An independent copy."""

    @abstractmethod
    def leaves_out(self, token_id: int, stop_reason: Any) -> bool:
        """Whether the last token of an answer that ended for this reason does not belong to it."""


def fill_each(
    matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
) -> dict[int, BaseException]:
    """Fill row rows[i] of `bitmask`, C-contiguous int32 [rows, words], with the mask of matcher i. A row that
    fails is all 0, and has no effect on the others.

    work  what bounded matchers may do.

    Returns the faults, `UnfinishedError` among them if `work` was too little, by row.
    """
    faults = {}
    for matcher, row in zip(matchers, rows, strict=True):
        fault = _fill_alone(matcher, bitmask[row], work)
        if fault is not None:
            faults[row] = fault
    return faults


def _fill_alone(matcher: Any, row: np.ndarray, work: Work | None) -> BaseException | None:
    """Fill one row through an array of its own: a plugin can write to no other row. Returns the fault."""
    own = np.zeros((1, len(row)), np.int32)
    try:
        if work is not None and is_bounded(matcher):
            matcher.fill_bitmask(own.view(), 0, work=work)
        else:
            matcher.fill_bitmask(own.view(), 0)
    except INTERRUPTIONS:
        raise
    except BaseException as fault:
        row[:] = 0
        return fault
    row[:] = own[0]
    return None


def compiled_of(matcher: Any) -> Compiled | None:
    """The constraint of a matcher, if it has captures or settings, or leaves something unenforced. What its
    attribute raises, it raises as a `ParameterError`."""
    compiled = call_for_add("the grammar", getattr, matcher, "compiled", None)
    return compiled if isinstance(compiled, Compiled) else None


def settings_of(matcher: Any) -> RuleSettings | None:
    """The sampling parameters that parts of the constraint of a matcher set; None for none."""
    compiled = compiled_of(matcher)
    return None if compiled is None else compiled.settings
