"""Criteria that are only called, as transformers' are, among the stopping criteria of a request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.arrays import array_from
from ..base.errors import quoted
from ..contract import ParameterError, StoppingCriteria, StopVerdict, Vocabulary


def as_criterion(value: Any) -> StoppingCriteria:
    """`value` as a criterion that a scheduler can use; raises `ParameterError` if it is none.

    One that is only called, `(input_ids, scores) -> bool [rows]`, becomes a `CalledCriteria`: any callable
    object, and a `StoppingCriteria` that defines `__call__` but not `check`.
    """
    if isinstance(value, StoppingCriteria):
        own = type(value)
        only_called = own.check is StoppingCriteria.check and own.__call__ is not StoppingCriteria.__call__
        return CalledCriteria(value) if only_called else value
    if callable(value) and not isinstance(value, type):
        return CalledCriteria(value)
    raise ParameterError(
        f"stopping_criteria holds {quoted(value)}, which is not a StoppingCriteria and cannot be called"
    )


def name_of(criterion: Any) -> str:
    """The `name` of a criterion, else that of its class or function."""
    for named, attribute in ((criterion, "name"), (criterion, "__name__"), (type(criterion), "__name__")):
        if isinstance(name := getattr(named, attribute, None), str):
            return name
    return type(criterion).__qualname__


class Tokens:
    """Prompt and output of one request, in an array that grows."""

    def __init__(self, token_ids: np.ndarray) -> None:
        self._length = len(token_ids)
        self._ids = np.empty(2 * self._length + 64, np.int64)
        self._ids[: self._length] = token_ids

    def append(self, token_id: int) -> None:
        if self._length == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
        self._ids[self._length] = token_id
        self._length += 1

    def drop(self, n: int) -> None:
        """Forget the last `n`; arrays handed out before keep theirs."""
        self._length -= n
        self._ids = self._ids.copy()

    def row(self) -> np.ndarray:
        """int64 [1, length]."""
        return self._ids[None, : self._length]


class CalledCriteria(StoppingCriteria):
    """Ends a request after the first token for which `criterion(input_ids, scores)` is true.

    It is called after each token with the request's prompt and output, int64 [1, length]: a torch tensor if
    torch has been imported, else a NumPy array. scores is None, since a scheduler keeps none. It returns a
    bool, or an array or tensor with one. stop_reason is the criterion's `name`, else that of its class.
    Source: transformers, whose criteria have this form.
    """

    def __init__(self, criterion: Callable[..., Any]) -> None:
        self.name = name_of(criterion)  # type: ignore[misc]
        self.criterion = criterion

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Tokens:
        return Tokens(prompt_token_ids)

    def check(self, state: Tokens, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        ended = False
        for token_id in token_ids:
            state.append(token_id)
            ended = self._ends(state.row()) or ended
        return StopVerdict(self.name) if ended else None

    def rollback(self, state: Tokens, n: int) -> None:
        state.drop(n)

    def fork(self, state: Tokens) -> Tokens:
        return Tokens(state.row()[0])

    def _ends(self, row: np.ndarray) -> bool:
        torch = sys.modules.get("torch")
        answer = self.criterion(row if torch is None else torch.from_numpy(row), None)
        flags = array_from(answer, 1)
        if flags.size != 1 or flags.dtype.kind not in "biu":
            raise TypeError(f"it returned {quoted(answer)}, allowed is one bool per row")
        return bool(flags.item())
