"""`RowParams`: the parameters of rows, one column for each, as a `SamplingParams` for each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..base.cached import cached_property
from ..base.errors import quoted
from ..contract import Param, ParameterError
from ..params import SamplingParams
from ..params.sampling_params import phases_of
from ..registry import CORE_PARAMS, default_registry, unknown

Column: TypeAlias = "np.ndarray | list[Any]"
ParamsOrFault: TypeAlias = "SamplingParams | ParameterError"

OF_ROWS = ("seed", "min_keep", "order")
"""The parameters of a request as such that a row has."""

_FOR_MIN_TOKENS = "stop_token_ids"
"""The one parameter of stopping criteria that a column may give: `min_tokens` reads it, too."""

_MOST_KEPT = 4096
"""The most combinations of values that are remembered."""


class RowParams:
    """What the columns of calls mean, row by row: while a column stays as it is, its rows keep their objects.

    Columns of the last call are kept as copies, so arrays may be changed in place.
    """

    def __init__(self) -> None:
        self._base: Sequence[SamplingParams] = ()
        self._only: SamplingParams | None = None
        """The one that the columns of all rows change."""
        self._columns: dict[str, Column] = {}
        self._rows: list[ParamsOrFault] = []
        self._known: dict[tuple[Any, ...], tuple[SamplingParams, ParamsOrFault]] = {}
        """What values mean on top of the parameters that they change, which must not be forgotten."""
        self._allowed: set[int] = set()

    def rows(
        self,
        count: int,
        params: SamplingParams | Sequence[SamplingParams] | None,
        columns: Mapping[str, Any],
    ) -> list[ParamsOrFault]:
        """The parameters of each of `count` rows, or why it cannot have them; not to be changed.

        Raises `ParameterError` for columns that are none, and ValueError for those of another length.
        """
        only = self._neutral if params is None else params if isinstance(params, SamplingParams) else None
        base = self._based(count, params, only)
        read = {name: _column(name, column, count, self._params) for name, column in columns.items()}
        which = self._changed(base, read)
        if not len(which):
            return self._rows
        rows: list[ParamsOrFault] = [*base] if len(self._rows) != count else self._rows.copy()
        names = list(read)
        some = [_entries(read[name], which) for name in names]
        for i, *values in zip(which, *some, strict=True):
            rows[i] = self._meaning(base[i], names, values)
        self._base, self._only, self._rows = base, only, rows
        self._columns = {name: column.copy() for name, column in read.items()}
        return rows

    # --- inside ----------------------------------------------------------------------------------

    @cached_property
    def _neutral(self) -> SamplingParams:
        return SamplingParams()

    @cached_property
    def _params(self) -> Mapping[str, Param]:
        """The parameters that a row may have, by name."""
        catalogue = default_registry().catalogue
        parts: list[Any] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
        allowed = {param.name for part in parts for param in part.params} | {*OF_ROWS, _FOR_MIN_TOKENS}
        return {name: param for name, param in catalogue.params.items() if name in allowed}

    def _based(self, count: int, params: Any, only: SamplingParams | None) -> Sequence[SamplingParams]:
        """The parameters that the columns change, one for each row."""
        if only is not None:
            is_kept = only is self._only and len(self._base) == count
            return self._base if is_kept else [only] * count
        if len(params) != count:
            raise ValueError(f"params has {len(params)} entries for {count} rows")
        for i, entry in enumerate(params):
            if not isinstance(entry, SamplingParams):
                raise ParameterError(f"params[{i}]={quoted(entry)} is not allowed: a SamplingParams")
        return list(params)

    def _changed(self, base: Sequence[SamplingParams], columns: Mapping[str, Column]) -> Collection[int]:
        """The rows whose parameters may have changed since the last call."""
        before = self._columns
        if len(base) != len(self._base) or before.keys() != columns.keys():
            return range(len(base))
        changed = np.zeros(len(base), bool)
        if base is not self._base:
            pairs = zip(base, self._base, strict=True)
            changed |= np.fromiter((one is not other for one, other in pairs), bool, len(base))
        for name, column in columns.items():
            changed |= _differing(column, before[name])
        return np.flatnonzero(changed).tolist()

    def _meaning(self, base: SamplingParams, names: Sequence[str], values: Sequence[Any]) -> ParamsOrFault:
        """`base` with these values, as the same object as long as it is remembered."""
        key = (id(base), *zip(names, map(type, values), values, strict=True))
        try:
            known = self._known.get(key)
        except TypeError:  # a value that cannot be a key
            return self._checked(base, names, values)
        if known is None:
            known = base, self._checked(base, names, values)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = known
        return known[1]

    def _checked(self, base: SamplingParams, names: Sequence[str], values: Sequence[Any]) -> ParamsOrFault:
        changes = {n: value for n, value in zip(names, values, strict=True) if value is not None}
        try:
            params = base.replace(**changes) if changes else base
            self.check(params)
        except ParameterError as fault:
            return fault
        return params

    def check(self, params: SamplingParams) -> None:
        """Raise `ParameterError` if `params` are more than a row may have."""
        if phases_of(params) is not None:
            raise ParameterError("thinking and phases are not allowed: a row is in none")
        for name in params.given:
            if name not in self._params:
                raise _refused(name, params[name])


def _refused(name: str, value: Any) -> ParameterError:
    """The error for a parameter that rows do not have."""
    if name not in CORE_PARAMS:
        why = "the owner of the rows ends them"
    elif name.startswith("logprob"):
        why = "an argument of step asks for logprobs"
    else:
        why = "a row draws one token of a text, under the mask that comes with its logits"
    return ParameterError(f"{name}={quoted(value)} is not allowed: {why}")


def _column(name: Any, column: Any, count: int, allowed: Mapping[str, Param]) -> Column:
    """A column as an array of numbers, or as a list of anything else."""
    if not isinstance(name, str) or name not in default_registry().catalogue.params:
        raise unknown(name) if isinstance(name, str) else ParameterError(f"{quoted(name)} is not a parameter")
    if name not in allowed:
        raise _refused(name, column)
    if not isinstance(column, (list, tuple)):
        column = np.asarray(column)
        if column.ndim != 1:
            raise ValueError(f"the column {name} has the shape {column.shape}; allowed is [rows]")
    if len(column) != count:
        raise ValueError(f"the column {name} has {len(column)} entries for {count} rows")
    is_numbers = isinstance(column, np.ndarray) and column.dtype != object
    return column if is_numbers else list(column)


def _entries(column: Column, which: Collection[int]) -> list[Any]:
    """Some entries of a column as Python's numbers, or as they are."""
    if isinstance(column, np.ndarray):
        entries: list[Any] = column[list(which)].tolist()
        return entries
    return [column[i] for i in which]


def _differing(column: Column, before: Column) -> Any:
    """bool [rows], where two columns may differ."""
    if isinstance(column, np.ndarray) and isinstance(before, np.ndarray):
        return column != before
    return [one is not other and one != other for one, other in zip(column, before, strict=True)]
