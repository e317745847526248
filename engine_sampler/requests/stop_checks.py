"""Whether a request ends: its stopping criteria, and the first verdict that counts."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.calling import call_for_add, call_plugin
from ..base.errors import PluginFault, quoted
from ..contract import ParameterError, StoppingCriteria, StopVerdict, TextCriteria, Vocabulary, Watch
from ..params import SamplingParams, lookup_of
from ..registry import default_registry
from .called_criteria import as_criterion, name_of
from .detokenizer import Detokenizer, MatchedEnds, plain_reason
from .history import UNBOUNDED, History
from .parts import RecordedLogprobs, RequestPart
from .slots import CheckTrigger

if TYPE_CHECKING:
    from .request import Request


class StopOutcome(NamedTuple):
    """The result of a check: the verdict that counts, if any, and why a criterion failed, if one did."""

    verdict: StopVerdict | None
    fault: str | None


class _CriteriaVerdicts(NamedTuple):
    """The first verdict of a criterion and of a limit, and why the last failing criterion failed."""

    verdict: StopVerdict | None
    limit: StopVerdict | None
    fault: str | None


class StopChecks(RequestPart):
    """The stopping criteria of one request, and the limits on its length.

    criteria         (criterion, state) of those that are called with tokens.
    text_matchers    the matchers of those that end requests by their text: the detokenizer runs these.
    bans             the matchers of those that take text back.
    ban_count        how many texts and patterns they look for.
    needs_logprobs   whether a criterion takes the logprob of every token.
    confidence_top_k  how many of the likeliest tokens make the confidence of a row; 0 if none is needed.

    Without `ends`, there are no criteria, whatever the parameters say.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_token_ids: np.ndarray,
        vocabulary: Vocabulary,
        more: Sequence[Callable[..., Any]] = (),
        max_model_len: int | None = None,
        *,
        ends: bool = True,
    ) -> None:
        self._given = params, prompt_token_ids, vocabulary
        active = _active_criteria(params, vocabulary, more) if ends else []
        by_text = [c for c in active if isinstance(c, TextCriteria)]
        self._text_criteria = [c for c in by_text if not c.takes_back]
        self.text_matchers = [_text_matcher(c, params, vocabulary) for c in self._text_criteria]
        banning = [c for c in by_text if c.takes_back]
        self.bans = [_text_matcher(c, params, vocabulary) for c in banning]
        self.ban_count = sum(_entries(params[p.name]) for c in banning for p in c.params)
        if banning and params["use_beam_search"]:
            raise ParameterError(f"{banning[0].name} and use_beam_search are not allowed together")
        self.criteria = [
            (c, call_for_add(name_of(c), c.new_state, params, prompt_token_ids, vocabulary))
            for c in active
            if not isinstance(c, TextCriteria)
        ]
        self._watches = [_watch(c, params, prompt_token_ids, vocabulary) for c, _ in self.criteria]
        watched = {t for w in self._watches if w is not None for t in w.token_ids}
        self._watched = np.array(sorted(watched), np.int64)
        """The tokens after which a criterion is called; siblings share them."""
        self.needs_logprobs = any(c.wants_logprobs for c, _ in self.criteria)
        self.confidence_top_k = _confidence_top_k(active, params) if self.needs_logprobs else 0
        self._min_tokens: int = params.get("min_tokens", 0)
        self._least = self._min_tokens
        """How many tokens the output must have before it may end, in all."""
        self._own_stops = np.array(params.stop_token_ids if ends else (), np.int64)
        self._hears_stops = True
        """Whether the request's own stop tokens end it."""
        self._max_model_len = max_model_len
        self._checked = 0
        """How many output tokens the criteria have seen."""
        self._in_call = False
        """Whether they are being called: some have then seen more than others, or half of a change."""

    def recorded(self, logprobs: Sequence[float] = ()) -> RecordedLogprobs:
        """A record that begins with the logprobs of the output, and has what the criteria take."""
        return RecordedLogprobs(logprobs, self.confidence_top_k)

    @property
    def own_stops(self) -> np.ndarray:
        """The request's own stop tokens, any of which ends it now, int64."""
        return self._own_stops if self._hears_stops else self._own_stops[:0]

    def limit_to(self, begin: int, hears_stops: bool) -> None:
        """From now on, `min_tokens` counts from the output token number `begin`; without `hears_stops`,
        neither that nor the request's own stop tokens hold: it needs more tokens first."""
        self._hears_stops = hears_stops
        self._least = (begin if hears_stops else UNBOUNDED) + self._min_tokens if self._min_tokens else 0

    def trigger(self, prompt_length: int, always: bool) -> CheckTrigger:
        """When `check` must run; `always` if something else of the request needs it after every token."""
        watches = [w for w in self._watches if w is not None]
        lengths = [prompt_length + w.output_length for w in watches if w.output_length is not None]
        return CheckTrigger(
            self._watched,
            min([*lengths, UNBOUNDED if self._max_model_len is None else self._max_model_len]),
            always or len(watches) < len(self._watches),
        )

    def check(
        self,
        history: History,
        text: Detokenizer | None,
        logprobs: Sequence[float] | None,
        text_ends: MatchedEnds,
        grammar_ended: Callable[[], bool] | None,
    ) -> StopOutcome:
        """Call the criteria with all tokens that they have not seen yet.

        text_ends      the ends that the detokenizer found in the newest token.
        grammar_ended  whether the grammar's text is over; called if nothing else ends the request.

        Of several verdicts on one token, that of a token criterion comes first, then that of the text, then
        the grammar's, limits last.
        """
        verdict, limit, fault = self._call_criteria(history, text, logprobs)
        if verdict is None:
            verdict = self._text_verdict(text_ends)
        if verdict is None and grammar_ended is not None:
            try:
                verdict = StopVerdict(None) if grammar_ended() else None
            except PluginFault as error:
                fault = str(error)
        if verdict is None and limit is None and self._is_full(history):
            limit = StopVerdict("max_model_len", "length")
        return StopOutcome(verdict or limit, fault)

    def resume(self, history: History, text: Detokenizer | None, logprobs: Sequence[float]) -> None:
        """Bring the criteria up to output that the request starts with; nothing in it ends the request."""
        output = history.output_token_ids.tolist()
        for i, token_id in enumerate(output):
            delta = "" if text is None else text.deltas[i]
            for criterion, state in self.criteria:
                try:
                    _verdict_of(criterion, state, [token_id], delta, [logprobs[i]])
                except PluginFault as error:
                    raise ParameterError(f"output_token_ids: {error}") from error
        self._checked = len(output)

    def rollback(self, length: int) -> None:
        """Undo the tokens after the first `length`; raises `PluginFault` once all criteria have gone back."""
        fault, undone = None, self._checked - length
        if undone <= 0:
            return
        self._in_call = True
        for criterion, state in self.criteria:
            try:
                call_plugin(name_of(criterion), criterion.rollback, state, undone)
            except PluginFault as error:
                fault = fault or error
        self._in_call, self._checked = False, length
        if fault is not None:
            raise fault

    def rebuild(self, request: Request, length: int) -> None:
        """Criteria that were interrupted begin anew, with the tokens that all had seen; nothing in these ends
        the request."""
        if not self._in_call:
            self.rollback(length)
            return
        self._checked = min(self._checked, length)
        tokens = request.history.output_token_ids[: self._checked].tolist()
        deltas = [""] * len(tokens) if request.text is None else request.text.deltas
        logprobs = request.raw_logprobs or [0.0] * len(tokens)
        for i, (criterion, state) in enumerate(self.criteria):
            if isinstance(state, _UNCHANGEABLE):
                continue
            state = call_plugin(name_of(criterion), criterion.new_state, *self._given)
            for token_id, delta, logprob in zip(tokens, deltas, logprobs, strict=False):
                _verdict_of(criterion, state, [token_id], delta, [logprob])
            self.criteria[i] = criterion, state
        self._in_call = False

    def fork(self) -> StopChecks:
        child = copy.copy(self)
        child.criteria = [(c, call_plugin(name_of(c), c.fork, state)) for c, state in self.criteria]
        return child

    # --- inside ----------------------------------------------------------------------------------

    def _call_criteria(
        self, history: History, text: Detokenizer | None, logprobs: Sequence[float] | None
    ) -> _CriteriaVerdicts:
        """Call every criterion with the tokens that it has not seen, even after one has given a verdict:
        every state follows every token."""
        checked, length = self._checked, history.output_length
        token_ids = history.output_token_ids[checked:].tolist()
        delta = "" if text is None else "".join(text.deltas[checked:])
        new_logprobs = [] if logprobs is None else list(logprobs[checked:])
        is_too_short = length < self._least
        verdict = limit = fault = None
        self._in_call = True
        for criterion, state in self.criteria:
            try:
                called_verdict = _verdict_of(criterion, state, token_ids, delta, new_logprobs)
            except PluginFault as error:
                fault = str(error)
                called_verdict = None
            if called_verdict is None or (is_too_short and criterion.waits_for_min_tokens):
                continue
            if not self._hears_stops and _is_own_stop(criterion):
                continue
            if criterion.is_limit:
                limit = limit or called_verdict
            else:
                verdict = verdict or called_verdict
        self._in_call, self._checked = False, length
        return _CriteriaVerdicts(verdict, limit, fault)

    def _text_verdict(self, ends: MatchedEnds) -> StopVerdict | None:
        """The first of `ends` that counts: an end within the first `min_tokens` tokens does not."""
        waiting = self._checked <= self._least and self._least > 0
        for number, verdict in ends:
            if not (waiting and self._text_criteria[number].waits_for_min_tokens):
                return verdict
        return None

    def _is_full(self, history: History) -> bool:
        return self._max_model_len is not None and len(history) >= self._max_model_len


_UNCHANGEABLE = (type(None), bool, int, float, str, bytes, frozenset)
"""Types of states that no call can leave half changed."""


def _active_criteria(
    params: SamplingParams, vocabulary: Vocabulary, more: Sequence[Callable[..., Any]]
) -> list[StoppingCriteria]:
    """The registered criteria that the parameters need, then `more`."""
    given = [as_criterion(criterion) for criterion in more]
    registered = lookup_of(default_registry().catalogue).stopping_criteria
    asked = (params.given, params, vocabulary)
    return [*call_for_add("is_active of a criterion", registered.active, *asked), *given]


def _confidence_top_k(criteria: Sequence[StoppingCriteria], params: SamplingParams) -> int:
    """How many of the likeliest tokens make the confidences that `criteria` take. Raises `ParameterError`."""
    wanting = [c for c in criteria if c.wants_logprobs]
    counts = {call_for_add(name_of(c), _top_k_of, c, params): name_of(c) for c in wanting}
    counts.pop(0, None)
    if len(counts) > 1:
        listed = ", ".join(f"{name} {top_k}" for top_k, name in counts.items())
        raise ParameterError(f"confidences of different top_k are not allowed together: {listed}")
    for top_k, name in counts.items():
        if params["use_beam_search"]:
            raise ParameterError(f"{name} and use_beam_search are not allowed together")
        return top_k
    return 0


def _top_k_of(criterion: StoppingCriteria, params: SamplingParams) -> int:
    return operator.index(criterion.confidence_top_k(params))


def _is_own_stop(criterion: StoppingCriteria) -> bool:
    """Whether a criterion ends requests at tokens that their parameters name."""
    is_named = any(param.name == "stop_token_ids" for param in criterion.params)
    return is_named and getattr(criterion, "stop_token_ids", None) is None


def _text_matcher(criterion: TextCriteria, params: SamplingParams, vocabulary: Vocabulary) -> Any:
    vocabulary.need_tokenizer(name_of(criterion))
    return call_for_add(name_of(criterion), criterion.matcher, params, vocabulary)


def _entries(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else 0


def _watch(
    criterion: StoppingCriteria, params: SamplingParams, prompt: np.ndarray, vocabulary: Vocabulary
) -> Watch | None:
    name = name_of(criterion)
    watch = call_for_add(name, criterion.watch, params, prompt, vocabulary)
    return None if watch is None else call_for_add(name, _checked_watch, name, watch, vocabulary)


def _checked_watch(name: str, watch: Any, vocabulary: Vocabulary) -> Watch:
    """What `name` gave, with plain integers: token ids of the vocabulary, not more than it has."""
    if not isinstance(watch, Watch):
        raise ParameterError(f"{name} failed: watch gave {quoted(watch)}, which is not a Watch")
    token_ids = [int(operator.index(t)) for t in itertools.islice(watch.token_ids, vocabulary.size + 1)]
    vocabulary.check_ids(name, token_ids)
    if watch.output_length is None:
        return Watch(token_ids)
    return Watch(token_ids, min(max(int(operator.index(watch.output_length)), 0), UNBOUNDED))


def _verdict_of(
    criterion: StoppingCriteria, state: Any, token_ids: list[int], text: str, logprobs: list[float]
) -> StopVerdict | None:
    """What a criterion says about its newest tokens; raises `PluginFault`."""
    name = name_of(criterion)
    more = {"logprobs": logprobs} if criterion.wants_logprobs else {}
    found = call_plugin(name, criterion.check, state, token_ids, text, **more)
    return None if found is None else call_plugin(name, checked_verdict, name, found)


def checked_verdict(name: str, found: Any) -> StopVerdict:
    """What `name` gave, as a plain verdict; raises `PluginFault` if it is none, or has fields of other types
    than it declares."""
    if not isinstance(found, StopVerdict):
        raise PluginFault(f"{name} failed: it gave {quoted(found)}, which is not a StopVerdict")
    reason, finish_reason, cut = plain_reason(found.reason), found.finish_reason, found.cut
    if not isinstance(finish_reason, str):
        raise _wrong(name, "finish_reason", finish_reason, "a text")
    if not isinstance(cut, int) or cut < 0:
        raise _wrong(name, "cut", cut, "a number of bytes")
    return StopVerdict(reason, str.__str__(finish_reason), int(cut))


def _wrong(name: str, field: str, value: Any, allowed: str) -> PluginFault:
    return PluginFault(f"{name} failed: it gave a verdict with {field}={quoted(value)}, allowed is {allowed}")
