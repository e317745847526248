"""Several criteria combined into one, and the validation of such a list, as in transformers."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

from ..contract import flags_like, token_rows
from .max_length import MaxLengthCriteria


class StoppingCriteriaList(list[Any]):
    """A list of criteria, ours or any callables `(input_ids, scores, **kwargs)`; each of them can end a row.

    Source: transformers. Each criterion receives only the keyword arguments that it accepts.
    """

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: which rows end."""
        done = flags_like(input_ids, [False] * len(token_rows(input_ids)))
        for criterion in self:
            done = done | criterion(input_ids, scores, **_accepted(criterion, kwargs))
        return done

    @property
    def max_length(self) -> int | None:
        """The limit of the first `MaxLengthCriteria`, ours or transformers'; None if there is none."""
        return next((c.max_length for c in self if _limits_length(c)), None)


def validate_stopping_criteria(
    stopping_criteria: StoppingCriteriaList, max_length: int
) -> StoppingCriteriaList:
    """A deep copy of `stopping_criteria`, to which the limit `max_length` is added if it has none.

    Warns (UserWarning) if it has a different limit, which is kept. Source: transformers.
    """
    checked = copy.deepcopy(stopping_criteria)
    if checked.max_length is None:
        checked.append(MaxLengthCriteria(max_length))
    elif checked.max_length != max_length:
        warnings.warn(
            f"max_length={max_length} is ignored: the criteria have max_length={checked.max_length}",
            UserWarning,
            stacklevel=2,
        )
    return checked


def _limits_length(criterion: Any) -> bool:
    """Whether `criterion` is a `MaxLengthCriteria`; transformers' class is known by its name, so that
    transformers need not be there."""
    return any(base.__name__ == MaxLengthCriteria.__name__ for base in type(criterion).__mro__)


def _accepted(criterion: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The entries of `kwargs` that `criterion` has parameters for."""
    if not kwargs:
        return kwargs
    parameters = inspect.signature(criterion).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return kwargs
    names = {p.name for p in parameters}
    return {name: value for name, value in kwargs.items() if name in names}
