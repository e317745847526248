"""Several criteria as one, and the check of a list of them, as transformers has them."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

from ..contract import flags_like, token_rows
from .max_length import MaxLengthCriteria


class StoppingCriteriaList(list[Any]):
    """Criteria, ours or any callables `(input_ids, scores, **kwargs)`, of which any may end a row.

    Source: transformers. Each criterion gets those keyword arguments that it takes.
    """

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: which rows end."""
        done = flags_like(input_ids, [False] * len(token_rows(input_ids)))
        for criterion in self:
            done = done | criterion(input_ids, scores, **_taken(criterion, kwargs))
        return done

    @property
    def max_length(self) -> int | None:
        """The limit of the first `MaxLengthCriteria`; None without one."""
        return next((c.max_length for c in self if isinstance(c, MaxLengthCriteria)), None)


def validate_stopping_criteria(criteria: StoppingCriteriaList, max_length: int) -> StoppingCriteriaList:
    """A deep copy of `criteria` that has a limit: `max_length`, if there is none yet.

    Warns (UserWarning) where there is another limit, which stays. Source: transformers.
    """
    checked = copy.deepcopy(criteria)
    if checked.max_length is None:
        checked.append(MaxLengthCriteria(max_length))
    elif checked.max_length != max_length:
        warnings.warn(
            f"the criteria say max_length={checked.max_length}, which holds; not max_length={max_length}",
            UserWarning,
            stacklevel=2,
        )
    return checked


def _taken(criterion: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Those of `kwargs` that `criterion` has parameters for."""
    if not kwargs:
        return kwargs
    parameters = inspect.signature(criterion).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return kwargs
    names = {p.name for p in parameters}
    return {name: value for name, value in kwargs.items() if name in names}
