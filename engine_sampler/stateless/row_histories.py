"""`RowHistories`: requests follow the tokens that their owner has for them."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..base.errors import text_of
from ..contract import ParameterError
from ..params import SamplingParams
from ..requests.ending import RequestError
from ..scheduler.input_batch import InputBatch
from .keyed_requests import KeyedRequests

_AGAIN = 16
"""So many of the tokens that an output had in the last call are compared once more."""


class KeptRow:
    """What is known of a key since the last call.

    params  of its request; None without one.
    prompt, output  the objects that were given last.
    seen    how many tokens `output` had then.
    seed    of its request, unless the parameters have one.
    fault   why it has no request.
    refused  what was given when it got the fault.
    tokens  the prompt and output that it had before it lost its request.
    """

    __slots__ = (
        "fault", "key", "output", "own_seed", "params", "prompt", "refused", "seed", "seen", "tokens"
    )  # fmt: skip

    def __init__(self, key: Hashable, seed: int) -> None:
        self.key = key
        self.own_seed = self.seed = seed
        self.params: SamplingParams | None = None
        self.prompt: Any = None
        self.output: Any = None
        self.seen = 0
        self.fault: str | None = None
        self.refused: tuple[Any, ...] = ()
        self.tokens: tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray] = (), ()

    def is_refused(self, asked: tuple[Any, ...]) -> bool:
        """Whether the same has been refused before."""
        return (
            bool(self.refused)
            and all(map(operator.is_, self.refused[:3], asked))
            and asked[3] == self.refused[3]
        )


class RowHistories:
    """Adds, restarts, extends and rolls back requests."""

    def __init__(self, requests: KeyedRequests) -> None:
        self._requests = requests

    def follow(
        self,
        rows: Sequence[KeptRow],
        params: Sequence[SamplingParams | ParameterError],
        prompts: Sequence[Any] | None,
        outputs: Sequence[Any] | None,
        inputs: InputBatch | None,
    ) -> bool:
        """Bring the request of each row to these parameters and tokens; returns whether any request has
        joined or left.

        inputs  the requests of the rows, if they are those of the last call.
        """
        waiting = self._not_as_drawn(rows, params, prompts, outputs, inputs)
        changed = False
        for i in waiting:
            prompt = None if prompts is None else prompts[i]
            output = None if outputs is None else outputs[i]
            changed |= self._follow(rows[i], params[i], prompt, output)
        return changed

    def _not_as_drawn(
        self,
        rows: Sequence[KeptRow],
        params: Sequence[SamplingParams | ParameterError],
        prompts: Sequence[Any] | None,
        outputs: Sequence[Any] | None,
        inputs: InputBatch | None,
    ) -> list[int]:
        """The rows about which anything has changed but that their outputs have what was drawn."""
        if inputs is None:
            places, seats = self._requests.seats([row.key for row in rows])
        else:
            places, seats = inputs.places.tolist(), inputs.slots
        others = [i for i, row in enumerate(rows) if row.params is not params[i]]
        if len(places) < len(rows):
            others += {*range(len(rows))}.difference(places)
        if prompts is not None:
            others += [
                i for i, row in enumerate(rows) if prompts[i] is not row.prompt and prompts[i] is not None
            ]
        if outputs is not None:
            for i, length, last in zip(places, *self._requests.ends(seats), strict=True):
                output, row = outputs[i], rows[i]
                if output is row.output and len(output) == length == row.seen + 1 and output[-1] == last:
                    row.seen = length
                elif output is not None:
                    others.append(i)
        return sorted({*others})

    # --- one row ------------------------------------------------------------------------------------

    def _follow(
        self, row: KeptRow, params: SamplingParams | ParameterError, prompt: Any, output: Any
    ) -> bool:
        """Bring one request to its parameters and tokens; returns whether it has joined or left."""
        had = self._requests.has(row.key)
        asked = params, prompt, output, len(output) if hasattr(output, "__len__") else None
        if not had and row.is_refused(asked):
            return False
        try:
            if isinstance(params, ParameterError):
                raise params
            if had and self._continues(row, params, prompt):
                row.params = params
                if output is not None:
                    self._extend(row, output)
                return False
            self._restart(row, params, prompt, output)
        except (ValueError, TypeError, OverflowError) as fault:  # among them those for parameters
            self._give_up(row, text_of(fault))
            row.refused = asked
            return had
        return True

    def _continues(self, row: KeptRow, params: SamplingParams, prompt: Any) -> bool:
        """Whether the request of a row has these parameters and this prompt."""
        if params is not row.params and params != row.params:
            return False
        if prompt is None or prompt is row.prompt:
            return True
        own = self._requests.history(row.key).prompt_token_ids
        if len(prompt) != len(own) or not np.array_equal(prompt, own):
            return False
        row.prompt = prompt
        return True

    def _restart(self, row: KeptRow, params: SamplingParams, prompt: Any, output: Any) -> None:
        """Give a row a request with these parameters; what is None of the tokens is as before."""
        self._keep_tokens(row)
        self._requests.leave(row.key)
        row.params, row.seed = None, row.own_seed if params.seed is None else params.seed
        prompt = row.tokens[0] if prompt is None else prompt
        output = row.tokens[1] if output is None else output
        self._requests.enter(row.key, params, prompt, output, row.seed)
        row.params, row.fault, row.refused, row.tokens = params, None, (), ((), ())
        row.prompt, row.output, row.seen = prompt, output, len(output)

    def _extend(self, row: KeptRow, output: Any) -> None:
        """Bring the output of a request to `output`. Raises `ParameterError`."""
        own = self._requests.history(row.key).output_token_ids
        begin = max(0, min(row.seen, len(output)) - _AGAIN) if output is row.output else 0
        same = _common(own, output, begin)
        if same < min(row.seen, len(output)) and begin:
            same = _common(own, output, 0)
        if same < len(own):
            self._requests.rollback(row.key, len(own) - same)
        if same < len(output):
            self._requests.accept(row.key, output[same:])
        if not self._requests.has(row.key):
            raise RequestError(f"the state of {row.key!r} cannot follow its tokens")
        row.output, row.seen = output, len(output)

    def _give_up(self, row: KeptRow, fault: str) -> None:
        """Leave a row without a request."""
        self._keep_tokens(row)
        self._requests.leave(row.key)
        row.params, row.prompt, row.output, row.seen, row.fault = None, None, None, 0, fault

    def _keep_tokens(self, row: KeptRow) -> None:
        if self._requests.has(row.key):
            history = self._requests.history(row.key)
            row.tokens = history.prompt_token_ids, history.output_token_ids.copy()


def _common(own: np.ndarray, output: Any, begin: int) -> int:
    """How many tokens `own` and `output` have in common at their beginnings, the first `begin` of which are
    known to be equal. Raises `ParameterError` for an output that is not a list of integers."""
    end = min(len(own), len(output))
    part = np.asarray(output[begin:end])
    if part.shape != (end - begin,) or (end > begin and part.dtype.kind not in "iu"):
        raise ParameterError("outputs are not allowed: a list of token ids for each key")
    different = np.flatnonzero(part != own[begin:end])
    return begin + int(different[0]) if len(different) else end
