"""Requests that move: a live request as JSON, and newcomers made of that.

Draws are made by position. So all that a request is follows from its parameters, its seed, its tokens, what
the selector noted of each, the logprobs that criteria have seen, and how much of its text has been given.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.calling import guarded
from ..base.errors import quoted
from ..contract import AnswerParser, Param, ParameterError, TokenLogprob, Vocabulary
from ..params import RequestLimits, SamplingParams
from ..registry import CORE_PARAMS
from ..requests.bans import MAX_REWINDS, Rewind
from ..requests.ending import RequestError
from ..requests.history import History
from ..requests.request import Request
from ..requests.results import Record, RequestId
from ..requests.slots import ATTEMPT
from .arguments import POSITION
from .membership.joining import Newcomers, Terms, checked_count
from .membership.live_requests import LiveRequests
from .membership.step_lock import StepLock

VERSION = 1
"""Of what `export` writes."""

STREAMED = Param("state['streamed']", int, None, low=0)
"""The number of output tokens whose text the steps have given."""

HEALED = Param("state['healed']", int, None, low=0)
"""The token that was the prompt's last."""

PASSED = Param("state['passed']", str, None)
"""Why bans have let text stay."""

_MEMBERS = frozenset(
    "version request_id params seed position prompt_token_ids token_ids streamed notes logprobs grammar "
    "needs_grammar".split()
)


class _Movable(ABC):
    """What takes requests out of a scheduler and brings them back, or into another one."""

    vocabulary: Vocabulary
    limits: RequestLimits
    max_model_len: int | None
    _requests: LiveRequests
    _step_lock: StepLock

    @abstractmethod
    def _admit(self, newcomers: Newcomers, grammar: Any, client: Hashable) -> None: ...

    def suspend(self, request_id: RequestId) -> Record:
        """Take a live request out of the steps, with all its state. Returns its record.

        So a request is preempted, and the engine frees its cache. It is not in `request_ids`, and cannot be
        stepped or changed until `resume`; `remove` ends it with `abort`. `export` takes it to another
        process.
        """
        with self._step_lock.lock, self._step_lock:
            request = self._requests.find_single(request_id)
            self._requests.suspend(request)
            record = request.record()
        self._requests.observers.notify("request_suspended", request_id)
        return record

    def resume(self, request_id: RequestId) -> None:
        """Take a suspended request back into the steps: it continues exactly as if it had stayed."""
        with self._step_lock.lock, self._step_lock:
            self._requests.resume(self._requests.find_suspended(request_id))
        self._requests.observers.notify("request_resumed", request_id)

    def export(self, request_id: RequestId) -> dict[str, Any]:
        """A live or suspended request as JSON, for `add_exported` in any process: parameters, seed,
        tokens, and what selectors and criteria have to know of each. Changes nothing.

        Not in it: `max_time` begins anew, and so do criteria, parsers and grammars that are objects of your
        own, which `add_exported` takes. Raises `RequestError` for a request of a beam search, one that has
        finished, waits for its grammar, or has accepted tokens that join it with the next steps;
        `ParameterError` for parameters that hold objects (`logits_processors`).
        """
        with self._step_lock.lock, self._step_lock:
            request = self._requests.find_movable(request_id)
            is_seated = request.slot >= 0
            positions = self._requests.slots.positions
            return _exported(request, int(positions[request.slot]) if is_seated else request.position)

    def add_exported(
        self,
        state: Mapping[str, Any],
        *,
        request_id: RequestId | None = None,
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        client: Hashable = None,
        parser: AnswerParser | None = None,
    ) -> RequestId:
        """Add a request that `export` has written; returns its id, by default its old one. It continues with
        the same tokens, logprobs and text, on any exact backend.

        Arguments and errors are those of `add`. `grammar` is needed if the request was added with one that is
        no text.
        """
        state = _checked(state)
        given_id = self._requests.free_id(state["request_id"] if request_id is None else request_id)
        newcomer = _newcomer(self, state, given_id, grammar, stopping_criteria, parser)
        self._admit(newcomer, newcomer.grammar, client)
        return given_id


def _exported(request: Request, position: int | None) -> dict[str, Any]:
    """A request as JSON. Raises `RequestError` if it cannot be written so, or has tokens that have not joined
    it yet, and `ParameterError` for parameters that hold objects.

    position  the index of its next token; None: the length of its history
    """
    if request.backlog:
        raise RequestError(
            f"request {quoted(request.id)} has accepted tokens that join it with the next steps"
        )
    history, grammar, bans = request.history, request.given_grammar, request.bans
    if position is not None and bans is not None:
        position -= bans.draws * ATTEMPT
    notes = [None if note != note else note for note in history.output_notes.tolist()]
    logprobs = request.raw_logprobs
    return {
        "version": VERSION,
        "request_id": request.id if isinstance(request.id, (int, str)) else None,
        "params": request.params.to_dict(),
        "seed": request.seed,
        "position": None if position == len(history) else position,
        "prompt_token_ids": history.prompt_token_ids.tolist(),
        "token_ids": history.output_token_ids.tolist(),
        "streamed": None if request.text is None else request.text.taken,
        "notes": None if all(note is None for note in notes) else notes,
        "logprobs": None if logprobs is None else list(map(float, logprobs)),
        "grammar": grammar if isinstance(grammar, str) else None,
        "needs_grammar": grammar is not None and not isinstance(grammar, str),
        **(
            {}
            if logprobs is None or not logprobs.top_k
            else {"confidences": [getattr(logprob, "confidence", None) for logprob in logprobs]}
        ),
        **({} if request.healed is None else {"healed": request.healed}),
        **(
            {}
            if bans is None or not bans.rewinds
            else {"rewinds": [[*r[:-1], [*r.token_ids]] for r in bans.rewinds]}
        ),
        **({} if bans is None or bans.passed is None else {"passed": bans.passed}),
    }


def _newcomer(
    terms: Terms,
    state: Mapping[str, Any],
    request_id: RequestId,
    grammar: Any,
    criteria: Sequence[Callable[..., Any]],
    parser: AnswerParser | None,
) -> Newcomers:
    """The request of a state that `export` has written. Raises `ParameterError`."""
    if state["needs_grammar"] and grammar is None:
        raise ParameterError("the state needs its grammar, which was an object: give it as grammar=")
    params = guarded(lambda: SamplingParams.from_dict(state["params"]), "state['params']")
    checked_count(terms, params, grammar if grammar is not None else state["grammar"])
    tokens = state["prompt_token_ids"], state["token_ids"]
    newcomers = Newcomers.of(
        terms,
        [request_id],
        params,
        tokens,
        criteria,
        position=POSITION.check(state["position"]),
        parser=parser,
        grammar=state["grammar"] if grammar is None else grammar,
        is_moved=True,
    )
    prompt, output = newcomers.history.prompt_token_ids, newcomers.history.output_token_ids
    streamed = STREAMED.check(state["streamed"])
    if streamed is not None and streamed > len(output):
        raise ParameterError(f"state['streamed']={streamed} is not allowed: at most {len(output)} tokens")
    notes = _numbers("notes", state["notes"], len(output))
    rewinds, healed = _rewinds(state.get("rewinds", ()), len(output)), HEALED.check(state.get("healed"))
    terms.vocabulary.check_ids("state['rewinds']", [t for rewind in rewinds for t in rewind.token_ids])
    terms.vocabulary.check_ids("state['healed']", [] if healed is None else [healed])
    return replace(
        newcomers,
        history=History(prompt, output, None if notes is None else np.array(notes, np.float64)),
        seed=CORE_PARAMS["seed"].check(state["seed"]),
        logprobs=_logprobs(state, len(output)),
        streamed=streamed,
        healed=healed,
        rewinds=rewinds,
        passed=PASSED.check(state.get("passed")),
    )


def _logprobs(state: Mapping[str, Any], count: int) -> list[float] | None:
    """The logprobs of the output, with the confidences that are known. Raises `ParameterError`."""
    logprobs = _numbers("logprobs", state["logprobs"], count)
    confidences = _numbers("confidences", state.get("confidences"), count)
    if logprobs is None or confidences is None:
        return logprobs
    found = zip(logprobs, confidences, strict=True)
    return [logprob if math.isnan(c) else TokenLogprob(logprob, c) for logprob, c in found]


def _checked(state: Any) -> Mapping[str, Any]:
    if not isinstance(state, Mapping) or state.get("version") != VERSION or _MEMBERS - state.keys():
        raise ParameterError(
            f"state={quoted(state)} is not allowed: what export has given, version {VERSION}"
        )
    if not isinstance(state["params"], Mapping) or state["seed"] is None:
        raise ParameterError("state['params'] and state['seed'] are not allowed to be missing")
    if not isinstance(state["request_id"], (int, str, type(None))):
        raise ParameterError(
            f"state['request_id']={quoted(state['request_id'])} is not allowed: an integer or a text"
        )
    return state


def _rewinds(values: Any, count: int) -> tuple[Rewind, ...]:
    """Where a request with an output of `count` tokens has gone back to, as its part of a state says."""
    with contextlib.suppress(TypeError, ValueError):
        rewinds = tuple(map(_rewind, values))
        in_order = all(a.position < b.position and a.draws < b.draws for a, b in itertools.pairwise(rewinds))
        if in_order and all(max(r.position, r.certain) <= count and r.draws <= MAX_REWINDS for r in rewinds):
            return rewinds
    raise ParameterError(f"state['rewinds']={quoted(values)} is not allowed: what export has given")


def _rewind(value: Any) -> Rewind:
    *counts, token_ids = value
    position, draws, since, certain = map(_count, counts)
    return Rewind(position, draws, since, certain, tuple(map(_count, token_ids)))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{quoted(value)} is no count")
    return value


def _numbers(name: str, values: Any, count: int) -> list[float] | None:
    """A number for each token of the output, NaN for None; or None."""
    if values is None:
        return None
    if isinstance(values, list) and len(values) == count:
        numbers = [math.nan if value is None else value for value in values]
        with contextlib.suppress(OverflowError):  # an integer beyond all floats
            if all(type(number) in (int, float) for number in numbers):
                return [float(number) for number in numbers]
    raise ParameterError(f"state[{name!r}]={quoted(values)} is not allowed: a number for each of token_ids")
