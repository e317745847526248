"""logits_processors: functions of the engine's own, called with the tokens and the logits of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arrays import array_from
from ..base.errors import PluginFault, described
from ..contract import Example, Param, Rows, Sampler

_ALLOWED = "functions f(token_ids, logits), one or a list of them, that can be hashed"


def _functions(value: Any) -> tuple[Callable[..., Any], ...]:
    """One function or several as a tuple; raises TypeError for anything else."""
    entries = (value,) if callable(value) else value
    if not isinstance(entries, Sequence) or not all(map(callable, entries)):
        raise TypeError(_ALLOWED)
    functions = tuple(entries)
    try:
        hash(functions)
    except Exception:
        raise TypeError(_ALLOWED) from None
    return functions


@dataclass(frozen=True)
class Forbid:
    """The function of the examples: removes a token if others are left."""

    token_id: int

    def __call__(self, token_ids: np.ndarray, logits: np.ndarray) -> None:
        others = np.arange(len(logits)) != self.token_id
        if logits[others].max(initial=-np.inf) > -np.inf:
            logits[~others] = -np.inf


class LogitsProcessors(Sampler):
    """Call functions of the engine's own, one after another, with the tokens and the logits of a row.

    Formula: l ← f(token_ids, l) for each function f. In the examples, Forbid(token_id=1) removes token 1.

    token_ids  int64 [length], prompt and output so far; not to be written to, and not to be kept.
    logits     float32 [vocab], the row as it is at this place of the order, −inf = removed. It belongs to f.

    A function changes `logits` and returns None, or returns another row: an array, or a torch tensor on the
    host. A removed token stays removed. It is called on the host, for each row by itself, also where a
    backend runs the rest of the chain. It may be called more than once for a step, so what it does must
    follow from its arguments. One that raises, or whose row has another shape, NaN, +inf or no token left,
    ends its request with an error, and no other.

    Its place is directly after masks and biases, before the penalties, as in vLLM; with the order
    "transformers", behind the penalties and before temperature. An explicit order puts it anywhere.
    Selectors that ignore truncations keep it. Clients cannot send it: functions have no JSON.
    Parameters with functions pickle if these do. () is neutral.

    Source: the `logits_processors` of vLLM's and llama-cpp-python's requests, and transformers'
    `LogitsProcessor`, which gets tensors of a whole batch instead: `lambda ids, row:
    f(torch.tensor(ids)[None], torch.from_numpy(row)[None])[0]`.
    """

    name = "logits_processors"
    role = "penalty"  # it may read the history, and no selector makes it pointless
    cost = "history"
    params = (
        Param("logits_processors", Callable, neutral=(), convert=_functions, limit=16,  # type: ignore[arg-type]
              doc="functions f(token_ids, logits) of the engine's own"),
    )  # fmt: skip
    examples = (
        Example((1.0, 3.0, 2.0), {"logits_processors": Forbid(1)}, (1.0, -np.inf, 2.0)),
        Example((1.0, 3.0, 2.0), {"logits_processors": [Forbid(1), Forbid(0)]}, (-np.inf, -np.inf, 2.0)),
    )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        size = rows.vocabulary.size
        for i, (row, functions) in enumerate(zip(logits, rows[self.name], strict=True)):
            token_ids = rows.token_ids(i).view()
            token_ids.flags.writeable = False
            columns = None if rows.ids is None else np.flatnonzero(rows.ids[i] < size)
            for function in functions:
                if columns is None:
                    row[:] = _processed(function, token_ids, row)
                else:
                    whole = np.full(size, -np.inf, np.float32)
                    ids = rows.ids[i, columns]  # type: ignore[index]
                    whole[ids] = row[columns]
                    row[columns] = _processed(function, token_ids, whole)[ids]


def _processed(function: Callable[..., Any], token_ids: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The row that a function returns, or has changed. Raises `PluginFault` for anything but a row."""
    given = row.copy()
    result = function(token_ids, given)
    values = given if result is None else array_from(result, len(row))
    if values.shape != row.shape or values.dtype.kind not in "fiu":
        raise PluginFault(
            f"a function of logits_processors must return {len(row)} logits or None, not {described(result)}"
        )
    with np.errstate(over="ignore"):  # it is refused as infinite
        return np.where(row == -np.inf, row, values.astype(np.float32, copy=False))
