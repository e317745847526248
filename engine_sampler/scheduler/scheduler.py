"""`Scheduler`: the object an engine holds. Logits of all live requests in, their tokens out."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import FLT_MAX, LogitRows, RowFault, checked_row, child_seed, log_softmax
from ..backends.choose import best_backend, named_backend
from ..contract import Backend, Chain, Param, ParameterError, StoppingCriteria, Vocabulary, unpack_bitmask
from ..grammar.constraints import constraint_of, matcher_of
from ..params import SamplingParams
from ..registry import CORE_PARAMS, default_registry, structured_in
from ..tokenizer import Tokenizer
from .beam_groups import BeamGroup, beam_width, search_params
from .grouping import Grouping
from .history import History
from .masks import Masks
from .report import GroupReport, report_group
from .request import Request
from .results import Record, RequestId, StepResult
from .slots import Slots
from .step import Step

logger = logging.getLogger("engine_sampler")

_POSITION = Param("position", int, None, low=0, high=2**62)


class RequestError(ValueError):
    """A request id is unknown, taken, or belongs to a request that has finished."""


class _Party(NamedTuple):
    """Who takes part in a step."""

    ids: list[RequestId]
    requests: list[Request]
    everyone: bool
    searches: bool
    """Whether beam searches are among them."""

    @classmethod
    def of(cls, requests: list[Request], everyone: bool) -> _Party:
        searches = any(request.group is not None for request in requests)
        return cls([request.id for request in requests], requests, everyone, searches)


class _Busy:
    """While a step runs, what other threads want done waits for its end."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._running = False
        self._pending: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        with self.lock:
            self._running = True

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._running = False
            pending, self._pending = self._pending, []
            for work in pending:
                work()

    def when_idle(self, work: Callable[[], None]) -> None:
        """Do `work` now, or right after the step that is running. Called with the lock held."""
        if self._running:
            self._pending.append(work)
        else:
            work()


class Scheduler:
    """Samples for many requests at once; requests join and leave between any two steps.

    vocab_size      tokens; logits may be wider (padded heads).
    tokenizer       for text, and for parameters given as text.
    eos_token_ids   default: the tokenizer's.
    max_model_len   prompt and output together; reaching it ends a request with `length`.
    backend         "auto", a registered name, or a `Backend`.
    num_threads     for backends that use threads (`native` uses one unless told); the tokens do not
                    depend on it.

    `add`, `add_group`, `accept` and `remove` may come from any thread: they take effect at once, or
    after the step that is running. All other methods belong to one thread.
    """

    def __init__(
        self,
        vocab_size: int,
        tokenizer: Tokenizer | None = None,
        *,
        eos_token_ids: Sequence[int] = (),
        max_model_len: int | None = None,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
    ) -> None:
        _at_least_one("vocab_size", vocab_size)
        _at_least_one("max_model_len", max_model_len)
        _at_least_one("num_threads", num_threads)
        eos = tuple(eos_token_ids) or (tokenizer.eos_token_ids if tokenizer else ())
        self.vocabulary = Vocabulary(vocab_size, eos, tokenizer)
        self.vocabulary.check_ids("eos_token_ids", eos)
        self.max_model_len = max_model_len
        self.num_threads = num_threads
        self.backend: Backend | None = named_backend(backend)
        """The backend in use; None until the first step has chosen one."""
        self._slots = Slots(self.vocabulary, default_registry().catalogue.params, num_threads=num_threads)
        self._grouping: Grouping | None = None
        self._requests: dict[RequestId, Request] = {}
        self._live: dict[RequestId, Request] = {}
        self._numbers = itertools.count()
        self._busy = _Busy()
        self._lock = self._busy.lock
        self._masks = Masks(vocab_size)
        self._party: _Party | None = None
        """Who took part in the last step, while nobody has come or gone."""

    # --- requests --------------------------------------------------------------------------------

    @property
    def request_ids(self) -> list[RequestId]:
        """The live requests in order of arrival."""
        with self._lock:
            return list(self._live)

    def add(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_id: RequestId | None = None,
        output_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[StoppingCriteria] = (),
        position: int | None = None,
    ) -> RequestId:
        """Add a request; returns its id (`request_id`, or a new integer).

        output_token_ids  output it already has: it goes on exactly as if it had been drawn here, but
                          that selectors which learn from their own draws (mirostat, adaptive_p)
                          start anew.
        grammar           a compiled grammar, any object with a matcher's methods
                          (`engine_sampler.grammar.Matcher`), Lark text, or the name of a grammar. Text and
                          a `Grammar` are compiled first, which takes its time: compile them on another
                          thread where that matters.
        position          the index of its next token; default: the length of its history.

        Raises `ParameterError` or `RequestError` before anything changes.
        """
        if sibling_count(params) > 1 or params.use_beam_search:
            asked = (
                "use_beam_search=True"
                if params.use_beam_search
                else f"n={params.n}, best_of={params.best_of}"
            )
            raise ParameterError(f"{asked} needs add_group")
        position = _POSITION.check(position)
        request = self._build(
            params, prompt_token_ids, self._free_id(request_id), output_token_ids, grammar, stopping_criteria
        )
        request.position = position
        self._enter([request])
        return request.id

    def add_group(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_ids: Sequence[RequestId] | None = None,
        grammar: Any = None,
        stopping_criteria: Sequence[StoppingCriteria] = (),
    ) -> list[RequestId]:
        """Add `best_of` (default `n`) siblings of one prompt; returns their ids.

        Sibling 0 has the request's seed, sibling i its Philox child. The engine may give the same
        row of logits for all of them in the first step. `best` ranks them when they are done.

        With `use_beam_search` the siblings are the `beam_width` (default `best_of`, or `n`) texts of one
        search (`beams.BeamSearch`). All their rows belong into the same step; `StepResult.parent_ids` names
        for each row the request whose cache it continues, behind which its new token comes. They end
        together, the best text under the first id; until then they have no text.
        """
        count = sibling_count(params)
        if request_ids is None:
            request_ids = [self._new_id() for _ in range(count)]
        if len(request_ids) != count or len(set(request_ids)) != count:
            raise RequestError(f"request_ids={list(request_ids)!r} is not allowed: {count} different ids")
        own = search_params(params) if params.use_beam_search else params
        first = self._build(own, prompt_token_ids, request_ids[0], (), grammar, stopping_criteria)
        if params.best_of is not None or params.use_beam_search:
            first.raw_logprobs = []
        if params.use_beam_search:
            first.group = BeamGroup.of(params, request_ids, len(self.vocabulary.eos_token_ids))
        siblings = [first]
        siblings += [first.fork(r, child_seed(first.seed, i)) for i, r in enumerate(request_ids[1:], 1)]
        self._enter(siblings)
        return list(request_ids)

    def best(self, request_ids: Sequence[RequestId]) -> list[RequestId]:
        """The `n` best of a group's siblings by cumulative logprob, those of a beam search by its score,
        the best first; ties in order.

        Siblings that ended with `error` come last.
        """
        requests = [self._known(r) for r in request_ids]
        ranked = sorted(requests, key=lambda r: (r.error is not None, -_merit(r)))
        return [r.id for r in ranked[: requests[0].params.n]]

    def accept(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """Add tokens chosen elsewhere (jump-forward, another sampler); the request may end by them.

        Tokens behind the one that ends it are dropped. Selector state that follows drawn tokens
        (mirostat's mu) does not move.
        """
        tokens = _token_ids("token_ids", token_ids, self.vocabulary)
        with self._lock:
            request = self._alone(request_id)
            self._busy.when_idle(lambda: self._accept_all(request, tokens))

    def remove(self, request_id: RequestId) -> Record:
        """Forget a request; one that is live ends with `abort`. Returns its record.

        Where a step is running, the record says how far that step has come.
        """
        with self._lock:
            request = self._known(request_id)
            del self._requests[request_id]
            if self._live.pop(request_id, None) is not None:
                self._party = None
                self._busy.when_idle(lambda: self._abort(request))
                if request.group is not None:
                    self._abort_group(request.group)
            record = request.record()
        return record if record.finish_reason else replace(record, finish_reason="abort")

    def record(self, request_id: RequestId) -> Record:
        """What is known of a request, live or finished."""
        return self._known(request_id).record()

    def fork(
        self, request_id: RequestId, *, new_request_id: RequestId | None = None, seed: int | None = None
    ) -> RequestId:
        """A copy of a live request that goes on by itself; without `seed` it keeps the seed."""
        seed = CORE_PARAMS["seed"].check(seed)
        with self._lock:
            parent = self._alone(request_id)
            child = parent.fork(self._free_id(new_request_id), seed)
            if parent.slot >= 0:
                child.position = int(self._slots.positions[parent.slot])
            self._enter([child])
            return child.id

    def rollback(self, request_id: RequestId, n: int) -> None:
        """Take back the last n output tokens of a live request, in every part of its state.

        A part that cannot go back ends its request with `error`.
        """
        with self._lock:
            request = self._alone(request_id)
            have = len(request.entry.history.output_token_ids)
            if not 0 <= n <= have:
                raise RequestError(f"n={n} is not allowed: request {request_id!r} has {have} output tokens")
            request.rollback(self._slots, n)
            self._retire_if_done(request)

    # --- steps -----------------------------------------------------------------------------------

    def prepare(self, request_ids: Sequence[RequestId] | None = None) -> None:
        """Fill grammar masks for the next step, while the forward pass runs."""
        with self._busy:
            requests = self._named(request_ids)
            self._masks.fill(requests, [i for i, r in enumerate(requests) if r.matcher is not None])

    def forced_tokens(self, request_id: RequestId) -> list[int]:
        """The tokens that the request's grammar leaves no choice about, [] where there is one.

        An engine may run them through the model in one pass and hand them to `accept` (jump-forward),
        which saves a step for each. A grammar that fails ends its request with the next step.
        """
        with self._lock:
            request = self._alive(request_id)
            return request.forced_tokens() if request.live else []

    def step(
        self,
        logits: Any,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Sequence[Sequence[int]] | Mapping[RequestId, Sequence[int]] | None = None,
    ) -> StepResult:
        """Sample one token for each row of `logits` [rows, ≥ vocab] and advance the requests.

        request_ids      whose rows these are, in order; default all live ones. Pass it where other
                         threads add requests.
        draft_token_ids  guesses for each request (in row order, or by id). A request with k drafts
                         has k + 1 consecutive rows; drafts are accepted while they equal the draw.

        A faulty row ends its request with `error`. Raises `RequestError`, `ParameterError`,
        ValueError or TypeError for wrong ids and arrays before anything changes.
        """
        with self._busy:
            party = self._party_of(request_ids)
            requests = party.requests
            if party.searches:
                self._check_groups(requests, draft_token_ids)
                outcome = self._run_beams(self._rows(logits, len(requests)), requests)
            elif draft_token_ids is None:
                outcome = self._run(self._rows(logits, len(requests)), requests)
            else:
                outcome = self._run_drafts(logits, requests, self._drafts(draft_token_ids, requests))
        self._observe("step_finished", outcome)
        return outcome

    def process(self, logits: Any, request_ids: Sequence[RequestId] | None = None) -> np.ndarray:
        """The chain without selector and without state change: float32 [rows, vocab], −inf = removed.

        A faulty row is all NaN, and the reason is logged.
        """
        with self._busy:
            requests = self._named(request_ids)
            rows = self._rows(logits, len(requests))
            out = np.empty((len(requests), self.vocabulary.size), np.float32)
            for i, request in enumerate(requests):
                try:
                    out[i] = self._apply(request.chain, request, rows.row(i), rows.device)
                except Exception as error:
                    logger.error("request %r: %s", request.id, error)
                    out[i] = np.nan
        return out

    def explain(self) -> list[GroupReport]:
        """The groups of the live requests: their chains, and which backend runs each sampler."""
        with self._busy:
            requests = self._named(None)
            backend, grouping = self._engine("cpu")
            return [
                report_group(m.configuration.chain, backend, [requests[i].id for i in m.places])
                for m in grouping.roster(requests).members
            ]

    # --- inside a step ---------------------------------------------------------------------------

    def _run(self, rows: LogitRows, requests: list[Request]) -> StepResult:
        """A step with one row for each request."""
        backend, grouping = self._engine(rows.device)
        roster = grouping.roster(requests)
        step = Step(backend, rows, self._slots, self._masks, self._penalized)
        places = step.advance(roster, roster.places)
        result = step.result(roster, roster.places.copy(), places)
        for place in sorted(places):
            self._retire_if_done(requests[place])
        return result

    def _run_drafts(self, logits: Any, requests: list[Request], drafts: list[list[int]]) -> StepResult:
        """A step with a row more for every draft: round by round, while the guesses are right."""
        first_rows = np.cumsum([0, *(1 + len(d) for d in drafts)], dtype=np.int64)
        rows = self._rows(logits, int(first_rows[-1]))
        backend, grouping = self._engine(rows.device)
        roster = grouping.roster(requests)
        step = Step(backend, rows, self._slots, self._masks, self._penalized)
        step.advance(roster, first_rows[:-1])
        active: Sequence[int] = range(len(requests))
        for depth in itertools.count():
            active = [
                i
                for i in active
                if depth < len(drafts[i])
                and requests[i].live
                and step.token_ids[first_rows[i] + depth] == drafts[i][depth]
            ]
            if not active:
                break
            step.advance(grouping.some([requests[i] for i in active]), first_rows[active] + depth + 1)
        result = step.result(roster, first_rows[:-1], roster.places.tolist())
        for request in requests:
            self._retire_if_done(request)
        return result

    def _run_beams(self, rows: LogitRows, requests: list[Request]) -> StepResult:
        """A step with beam searches among the requests; all others draw as ever."""
        backend, grouping = self._engine(rows.device)
        roster = grouping.some(requests)
        step = Step(backend, rows, self._slots, self._masks, self._penalized)
        drawing = [place for place, request in enumerate(requests) if request.group is None]
        if drawing:
            step.advance(grouping.some([requests[place] for place in drawing]), np.array(drawing))
        result = step.result(roster, roster.places.copy(), drawing)
        places = {request.id: place for place, request in enumerate(requests)}
        for group in {id(r.group): r.group for r in requests if r.group is not None}.values():
            self._advance_group(group, [places[i] for i in group.request_ids], rows, requests, result)
        for place in drawing:
            self._retire_if_done(requests[place])
        return result

    def _advance_group(
        self,
        group: BeamGroup,
        places: list[int],
        rows: LogitRows,
        requests: list[Request],
        result: StepResult,
    ) -> None:
        """Take a step of one beam search, whose texts have the rows `places`, and put it into `result`."""
        members = [requests[place] for place in places]

        def score(request: Request, row: np.ndarray) -> np.ndarray:
            return self._apply(request.chain, request, log_softmax(checked_row(row)), rows.device)

        done = group.step(members, [rows.row(place) for place in places], score)
        with self._lock:
            if group.aborted:
                return
            self._replace(group, members, done.requests)
        for place, request, parent, token_id in zip(
            places, done.requests, done.parents, done.token_ids, strict=True
        ):
            result.token_ids[place] = token_id
            result.parent_ids[place] = group.request_ids[parent]
            result.finish_reasons[place] = request.finish_reason
            result.stop_reasons[place] = request.stop_reason
            result.errors[place] = request.error
            if request.stream is not None:
                result.text[place] = "" if request.live else request.stream.text

    def _replace(self, group: BeamGroup, members: Sequence[Request], successors: Sequence[Request]) -> None:
        """Put the next texts of a beam search in the places of these; those that have ended stay as
        records."""
        position = int(self._slots.positions[members[0].slot]) + 1
        for request in members:
            self._slots.remove(request.slot)
            request.slot = -1
        if self._grouping is not None:
            self._grouping.forget()
        self._party = None
        for request_id, request in zip(group.request_ids, successors, strict=True):
            request.id = request_id
            self._requests[request_id] = request
            if request.live:
                self._live[request_id] = request
                request.position = position
                self._seat(request)
            else:
                del self._live[request_id]
                self._observe("request_finished", request.record())

    def _penalized(self, request: Request, row: np.ndarray) -> np.ndarray:
        """The row after masks, biases and penalties, before any other sampler."""
        return self._apply(request.chain.edits_only(), request, row)

    def _apply(self, chain: Chain, request: Request, row: np.ndarray, device: str = "cpu") -> np.ndarray:
        """`row` as float32 [vocab] after the grammar's mask and the samplers of `chain`."""
        backend, grouping = self._engine(device)
        out = checked_row(row).copy()
        if (words := request.mask()) is not None:
            out[~unpack_bitmask(words, len(out))] = -np.inf
        backend.apply(grouping.plan_of(chain), out[None], grouping.rows_of(request))
        if not -np.inf < out.max() <= FLT_MAX:
            raise RowFault(f"the chain ends with a greatest logit of {out.max()}")
        return out

    def _engine(self, device: str) -> tuple[Backend, Grouping]:
        """The backend, chosen for `device` at the first call, and its groups."""
        if self.backend is None:
            self.backend = best_backend(device)
        if self._grouping is None:
            self._grouping = Grouping(self._slots, self.backend)
        return self.backend, self._grouping

    # --- checks, all before any change -----------------------------------------------------------

    def _named(self, request_ids: Sequence[RequestId] | None) -> list[Request]:
        """The requests of these ids, default all; the same list as long as they are the same."""
        return self._party_of(request_ids).requests

    def _party_of(self, request_ids: Sequence[RequestId] | None) -> _Party:
        """The party of these ids, default all; the same as long as they are the same."""
        with self._lock:
            party = self._party
            if request_ids is None:
                if party is None or not party.everyone:
                    party = self._party = _Party.of([r for r in self._live.values() if r.slot >= 0], True)
                return party
            ids = list(request_ids)
            if party is None or party.ids != ids:
                if len(set(ids)) != len(ids):
                    raise RequestError(f"request_ids={ids!r} names a request twice")
                party = self._party = _Party.of([self._alive(r) for r in ids], ids == list(self._live))
            return party

    def _rows(self, logits: Any, count: int) -> LogitRows:
        rows = LogitRows(logits, self.vocabulary.size)
        if len(rows) != count:
            raise ValueError(f"logits have {len(rows)} rows; the requests and drafts need {count}")
        return rows

    def _drafts(self, drafts: Any, requests: list[Request]) -> list[list[int]]:
        if isinstance(drafts, Mapping):
            ids = {r.id for r in requests}
            for request_id in drafts:
                if request_id not in ids:
                    raise RequestError(
                        f"draft_token_ids names {request_id!r}, which has no rows in this step"
                    )
            drafts = [drafts.get(r.id, ()) for r in requests]
        if len(drafts) != len(requests):
            raise RequestError(f"draft_token_ids has {len(drafts)} entries for {len(requests)} requests")
        return [_token_ids("draft_token_ids", d, self.vocabulary) for d in drafts]

    def _check_groups(self, requests: Sequence[Request], drafts: Any) -> None:
        """Refuse drafts beside beam searches, and searches of which rows are missing."""
        if drafts is not None:
            raise RequestError("draft_token_ids are not allowed in a step with a beam search")
        ids = {request.id for request in requests}
        for request in requests:
            missing = [i for i in (request.group.request_ids if request.group else ()) if i not in ids]
            if missing:
                raise RequestError(
                    f"request {request.id!r} is of a beam search: {missing[0]!r} belongs beside it"
                )

    def _alone(self, request_id: RequestId) -> Request:
        """A live request that is of no beam search, and that no fault has ended since the last step."""
        request = self._alive(request_id)
        if not request.live:
            raise RequestError(f"request {request_id!r} has finished ({request.finish_reason})")
        if request.group is not None:
            raise RequestError(f"request {request_id!r} is of a beam search, which alone continues it")
        return request

    def _known(self, request_id: RequestId) -> Request:
        try:
            return self._requests[request_id]
        except KeyError:
            raise RequestError(f"request {request_id!r} is unknown") from None

    def _alive(self, request_id: RequestId) -> Request:
        request = self._known(request_id)
        if request_id not in self._live:
            raise RequestError(f"request {request_id!r} has finished ({request.finish_reason})")
        return request

    # --- membership ------------------------------------------------------------------------------

    def _build(
        self,
        params: SamplingParams,
        prompt: Sequence[int],
        request_id: RequestId,
        output: Sequence[int],
        grammar: Any,
        criteria: Sequence[StoppingCriteria],
    ) -> Request:
        history = History(
            _token_ids("prompt_token_ids", prompt, self.vocabulary),
            _token_ids("output_token_ids", output, self.vocabulary),
        )
        if self.max_model_len is not None and len(history) >= self.max_model_len:
            raise ParameterError(
                f"the prompt has {len(history)} tokens, max_model_len={self.max_model_len} allows fewer"
            )
        return Request(
            request_id,
            params,
            history,
            self.vocabulary,
            matcher=self._matcher(params, grammar),
            max_model_len=self.max_model_len,
            stopping_criteria=criteria,
        )

    def _matcher(self, params: SamplingParams, grammar: Any) -> Any:
        """A matcher for the grammar that is given, or that the parameters ask for; None without one."""
        names = structured_in(params)
        if grammar is not None and names:
            raise ParameterError(f"grammar and {names[0]} are not allowed together: at most one of them")
        if params.grammar_bias is not None:
            return None  # a sampler of the chain favours what it allows
        constraint = constraint_of(params, self.vocabulary) if grammar is None else grammar
        return matcher_of(constraint, self.vocabulary)

    def _enter(self, requests: Sequence[Request]) -> None:
        with self._lock:
            for request in requests:
                if request.id in self._requests:
                    raise RequestError(f"request id {request.id!r} is taken")
            for request in requests:
                self._requests[request.id] = self._live[request.id] = request
                self._busy.when_idle(partial(self._seat, request))
                self._observe("request_added", request.id, request.params)

    def _seat(self, request: Request) -> None:
        self._party = None
        request.slot = self._slots.put(
            request.entry, request.params.given, request.seed, request.position, request.attention()
        )

    def _accept_all(self, request: Request, tokens: Sequence[int]) -> None:
        for token_id in tokens:
            if request.live:
                request.accept(self._slots, token_id)
        self._retire_if_done(request)

    def _retire_if_done(self, request: Request) -> None:
        """Take a finished request out of the live ones; its record stays."""
        if request.live:
            return
        with self._lock:
            if self._live.get(request.id) is request:  # not if it has been removed meanwhile
                del self._live[request.id]
                self._party = None
                self._release(request)

    def _abort(self, request: Request) -> None:
        if request.live:
            request.finish("abort")
        self._release(request)

    def _abort_group(self, group: BeamGroup) -> None:
        """End a beam search of which a request has been removed; a step under way leaves it as it was."""
        group.aborted = True
        for request_id in group.request_ids:
            request = self._live.pop(request_id, None)
            if request is not None:
                self._busy.when_idle(partial(self._abort, request))

    def _release(self, request: Request) -> None:
        self._slots.remove(request.slot)
        request.slot = -1
        if self._grouping is not None:
            self._grouping.forget()
        self._observe("request_finished", request.record())

    def _free_id(self, request_id: RequestId | None) -> RequestId:
        if request_id is None:
            return self._new_id()
        if request_id in self._requests:
            raise RequestError(f"request id {request_id!r} is taken")
        return request_id

    def _new_id(self) -> int:
        return next(n for n in self._numbers if n not in self._requests)

    def _observe(self, event: str, *values: Any) -> None:
        for name, observer in default_registry().catalogue.observers.items():
            if method := getattr(observer, event, None):
                try:
                    method(*values)
                except Exception:
                    logger.exception("observer %s failed at %s", name, event)


def sibling_count(params: SamplingParams) -> int:
    """How many requests `params` stand for."""
    if not isinstance(params, SamplingParams):
        raise ParameterError(f"params={params!r} is not allowed: a SamplingParams")
    if params.use_beam_search:
        return beam_width(params)
    count: int = params.best_of or params.n
    return count


def _merit(request: Request) -> float:
    return (request.cumulative_logprob or 0.0) if request.score is None else request.score


def _token_ids(name: str, token_ids: Any, vocabulary: Vocabulary) -> list[int]:
    ids = np.asarray(token_ids)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ParameterError(f"{name}={token_ids!r} is not allowed: a list of token ids")
    listed: list[int] = ids.tolist()
    if listed and (min(listed) < 0 or max(listed) >= vocabulary.size):
        vocabulary.check_ids(name, listed)  # finds and names the first
    return listed


def _at_least_one(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ParameterError(f"{name}={value!r} is not allowed: at least 1")
