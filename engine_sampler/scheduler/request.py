"""One live request: its slot, grammar, text and stopping state, kept in step with each other."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import (
    Chain,
    ParameterError,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    Vocabulary,
    Watch,
    bitmask_words,
    failure,
)
from ..params import SamplingParams, build_chain
from ..registry import default_registry
from .detokenizer import TextStream
from .history import AMPLE, History
from .results import Record, RequestId
from .slots import Attention, Slots
from .state import Slot, StateFault

if TYPE_CHECKING:
    from .beam_groups import BeamGroup

Found = tuple[tuple[int, StopVerdict], ...]
"""What text criteria say to a token: the number of each in the list of them, and its verdict."""


class Request:
    """A request from `add` to its end. Its parts change together, in `accept` and `rollback`."""

    def __init__(
        self,
        request_id: RequestId,
        params: SamplingParams,
        history: History,
        vocabulary: Vocabulary,
        *,
        seed: int | None = None,
        matcher: Any = None,
        max_model_len: int | None = None,
        stopping_criteria: Sequence[StoppingCriteria] = (),
    ) -> None:
        self.id = request_id
        self.params = params
        self.seed = _first(seed, params.seed, secrets.randbits(64))
        self.chain: Chain = build_chain(params)
        self.entry = Slot(self.chain, history)
        self.entry.open(params, vocabulary)
        self.slot = -1
        self.position: int | None = None
        """The index of its next token when it gets a slot; None: the length of its history."""
        self.matcher = matcher
        self.mask_ready = False
        """Whether the mask that was filled last is that of the next token."""
        self._mask_words = bitmask_words(vocabulary.size)
        self._has_eos = bool(vocabulary.eos_token_ids)
        self.max_model_len = max_model_len
        active = self._active_criteria(stopping_criteria, vocabulary)
        self._text_criteria = [c for c in active if isinstance(c, TextCriteria)]
        """Those that `stream` asks."""
        self.stream = self._open_stream(vocabulary)
        self._sent = 0
        """How many of the stream's pieces have been in results."""
        self.criteria = self._open_criteria(active, vocabulary)
        self._looked = 0
        """How many output tokens the criteria have seen."""
        self._watches = self._open_watches(vocabulary)
        wanted = any(c.wants_logprobs for c, _ in self.criteria)
        self.raw_logprobs: list[float] | None = [] if wanted else None
        """The raw logprob of every output token (0 for one chosen elsewhere), where siblings compete or a
        criterion asks."""
        self._min_tokens: int = params.get("min_tokens", 0)
        self.group: BeamGroup | None = None
        """The beam search it belongs to."""
        self.score: float | None = None
        """What a beam search ranks it by, once it has ended."""
        self.modes = _modes(params)
        """The kinds of logprobs it asked for."""
        self.finish_reason: str | None = None
        self.stop_reason: Any = None
        self.error: str | None = None
        self._resume(history.output_token_ids.tolist())

    # --- facts -----------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        return self.finish_reason is None

    @property
    def is_scored(self) -> bool:
        """Whether it wants logprobs, for its user or to compete with its siblings."""
        return bool(self.modes) or self.raw_logprobs is not None

    @property
    def cumulative_logprob(self) -> float | None:
        """Sum of the raw logprobs of the output, where siblings compete."""
        return None if self.raw_logprobs is None else math.fsum(self.raw_logprobs)

    def record(self) -> Record:
        history = self.entry.history
        return Record(
            self.id,
            history.prompt_token_ids.tolist(),
            history.output_token_ids.tolist(),
            None if self.stream is None else self.stream.text,
            self.finish_reason,
            self.stop_reason,
            self.error,
            self.seed,
            self.cumulative_logprob,
            self.score,
        )

    def mask(self) -> np.ndarray | None:
        """The grammar's bitmask for the next token, int32 [ceil(vocab / 32)].

        None where there is no grammar. Raises what the grammar raises.
        """
        if self.matcher is None:
            return None
        bitmask = np.zeros((1, self._mask_words), np.int32)
        self.matcher.fill_bitmask(bitmask, 0)
        return bitmask[0]

    def attention(self) -> Attention:
        """After which tokens `follow` must be called, besides those that end a grammar or a text; after all
        others it need not be."""
        watches = [w for w in self._watches if w is not None]
        prompt = self.entry.history.prompt_length
        lengths = [prompt + w.output_length for w in watches if w.output_length is not None]
        always = len(watches) < len(self._watches) or self.raw_logprobs is not None or bool(self.entry.eager)
        return Attention(
            np.unique(np.array([t for w in watches for t in w.token_ids], np.int64)),
            min([*lengths, AMPLE if self.max_model_len is None else self.max_model_len]),
            always,
        )

    # --- changes ---------------------------------------------------------------------------------

    def fill_mask(self, bitmask: np.ndarray, row: int) -> None:
        """Fill a row with the grammar's mask; a grammar that fails ends the request."""
        bitmask[row] = 0
        self._guarded("the grammar", lambda: self.matcher.fill_bitmask(bitmask, row))
        self.mask_ready = self.live

    def forced_tokens(self) -> list[int]:
        """The tokens that the grammar leaves no choice about; a grammar that fails ends the request."""
        forced = getattr(self.matcher, "forced_tokens", None)
        return [] if forced is None else list(self._guarded("the grammar", forced) or ())

    def accept(
        self, slots: Slots, token_id: int, note: float | None = None, logprob: float | None = None
    ) -> bool:
        """Add a token everywhere; the request may end by it. False if the grammar refuses it."""
        if not self.admits(token_id):
            return False
        slots.append(self.slot, [token_id], [note])
        self.follow(token_id, note, logprob, self.read(token_id))
        return True

    def grow(self, token_id: int, logprob: float) -> None:
        """`accept` for a request that has no slot."""
        if self.admits(token_id):
            self.entry.history.accept([token_id])
            self.follow(token_id, None, logprob, self.read(token_id))

    def admits(self, token_id: int) -> bool:
        """Give the grammar its next token; one that it refuses ends the request."""
        if self.matcher is None:
            return True
        self.mask_ready = False
        try:
            if self.matcher.accept(token_id):
                return True
            self.fail(f"the grammar refuses token {token_id}")
        except Exception as error:
            self.fail(failure("the grammar", error))
        return False

    def may_end(self) -> bool:
        """Whether the grammar's text is over, or cannot tell: `follow` has to look then."""
        try:
            return self._grammar_ends()
        except Exception:
            return True

    def read(self, token_id: int) -> Found:
        """Give the text its next token: the ends that text criteria find in it, the earliest first."""
        if self.stream is None:
            return ()
        try:
            return self.stream.push(token_id)
        except Exception as error:
            self.fail(failure("the text", error))
            return ()

    def follow(
        self, token_id: int, note: float | None = None, logprob: float | None = None, found: Found = ()
    ) -> None:
        """Bring everything but grammar and text up to a token that the history has; the request may end.

        found  what `read` said of the token.
        """
        if self.raw_logprobs is not None:
            self.raw_logprobs.append(logprob or 0.0)
        try:
            self.entry.follow([token_id], [note])
        except StateFault as fault:
            self.fail(str(fault))
        verdict = self._verdict(found)
        if verdict is not None and self.live:
            self.finish(verdict.finish_reason, verdict.reason, verdict.cut)

    def rollback(self, slots: Slots, n: int) -> None:
        """Take back the last n output tokens everywhere; text already streamed stays streamed. What cannot go
        back ends the request."""
        self.mask_ready = False
        faults: list[str] = []
        try:
            slots.rollback(self.slot, n)
        except StateFault as fault:
            faults.append(str(fault))
        if self.matcher is not None and n:
            self._tried("the grammar", lambda: self.matcher.rollback(n), faults)
        if self.stream is not None:
            self.stream.rollback(n)
            self._sent = min(self._sent, len(self.stream.pieces))
        if self.raw_logprobs is not None:
            del self.raw_logprobs[len(self.raw_logprobs) - n :]
        if (unseen := self._looked - self.entry.history.output_length) > 0:
            self._looked -= unseen
            for criterion, state in self.criteria:
                self._tried(criterion.name, partial(criterion.rollback, state, unseen), faults)
        if faults:
            self.fail(faults[0])

    def fork(self, request_id: RequestId, seed: int | None) -> Request:
        """A sibling that goes on from here; without `seed` with the same seed."""
        child = object.__new__(Request)
        child.__dict__.update(self.__dict__)
        child.id, child.slot = request_id, -1
        child.seed = self.seed if seed is None else seed
        child.mask_ready = False
        child.raw_logprobs = None if self.raw_logprobs is None else self.raw_logprobs.copy()
        child.entry = self.entry.fork()
        child.matcher = None if self.matcher is None else self.matcher.fork()
        child.stream = None if self.stream is None else self.stream.fork()
        child.criteria = [(c, c.fork(state)) for c, state in self.criteria]
        return child

    def finish(self, finish_reason: str, stop_reason: Any = None, cut: int = 0) -> None:
        """End the request; text held back becomes certain, but for its last `cut` bytes."""
        if self.stream is not None and self.live:
            self.stream.close(cut)
        self.finish_reason, self.stop_reason = finish_reason, stop_reason

    def fail(self, error: str) -> None:
        """End the request with finish_reason `error`."""
        self.error = error
        self.finish("error")

    def take_text(self) -> str | None:
        """Text for the next result."""
        if self.stream is None:
            return None
        pieces = self.stream.pieces
        sent, self._sent = self._sent, len(pieces)
        return pieces[sent] if len(pieces) == sent + 1 else "".join(pieces[sent:])

    # --- inside ----------------------------------------------------------------------------------

    def _active_criteria(
        self, more: Sequence[StoppingCriteria], vocabulary: Vocabulary
    ) -> list[StoppingCriteria]:
        """The criteria that this request needs."""
        known = default_registry().catalogue.stopping_criteria.values()
        for criterion in more:
            if not isinstance(criterion, StoppingCriteria):
                raise ParameterError(f"stopping_criteria holds {criterion!r}, which is no StoppingCriteria")
        active: Iterable[StoppingCriteria] = (c for c in known if c.is_active(self.params, vocabulary))
        return [*active, *more]

    def _open_stream(self, vocabulary: Vocabulary) -> TextStream | None:
        if vocabulary.tokenizer is None:
            for criterion in self._text_criteria:
                vocabulary.need_tokenizer(criterion.name)
            return None
        matchers = [c.matcher(self.params, vocabulary) for c in self._text_criteria]
        return TextStream(vocabulary.tokenizer, self.params.skip_special_tokens, matchers)

    def _open_criteria(
        self, active: Sequence[StoppingCriteria], vocabulary: Vocabulary
    ) -> list[tuple[StoppingCriteria, Any]]:
        prompt = self.entry.history.prompt_token_ids
        return [
            (c, c.new_state(self.params, prompt, vocabulary))
            for c in active
            if not isinstance(c, TextCriteria)
        ]

    def _open_watches(self, vocabulary: Vocabulary) -> list[Watch | None]:
        prompt = self.entry.history.prompt_token_ids
        watches = [c.watch(self.params, prompt, vocabulary) for c, _ in self.criteria]
        for (criterion, _), watch in zip(self.criteria, watches, strict=True):
            if not (watch is None or isinstance(watch, Watch)):
                raise ParameterError(f"{criterion.name} failed: watch gave {watch!r}, which is no Watch")
            if watch is not None:
                vocabulary.check_ids(criterion.name, watch.token_ids)
        return watches

    def _resume(self, output: list[int]) -> None:
        """Bring grammar, text and criteria up to the output that a resumed request starts with."""
        for token_id in output:
            if self.matcher is not None and not self.matcher.accept(token_id):
                raise ParameterError(f"output_token_ids: the grammar refuses token {token_id}")
            text = ""
            if self.stream is not None:
                self.stream.push(token_id)
                text = self.stream.pieces[-1]
            for criterion, state in self.criteria:
                _ask(criterion, state, [token_id], text, [0.0])
        self._looked = len(output)
        if self.raw_logprobs is not None:
            self.raw_logprobs = [0.0] * len(output)
        self._sent = len(output) if self.stream is not None else 0

    def _grammar_ends(self) -> bool:
        """Whether the grammar's text is over: EOS came, or there is no EOS and nothing else can follow."""
        if self.matcher.is_terminated():
            return True
        if self._has_eos or not self.matcher.is_accepting():
            return False
        mask = self.mask()
        return mask is not None and not mask.any()

    def _guarded(self, who: str, work: Callable[[], Any]) -> Any:
        """Do `work` of a plugin; if it raises, the request ends with an error that names it."""
        faults: list[str] = []
        done = self._tried(who, work, faults)
        if faults:
            self.fail(faults[0])
        return done

    def _tried(self, who: str, work: Callable[[], Any], faults: list[str]) -> Any:
        """Do `work` of a plugin; if it raises, `faults` says so."""
        try:
            return work()
        except Exception as error:
            faults.append(failure(who, error))
            return None

    def _verdict(self, found: Found) -> StopVerdict | None:
        """What the criteria say to all tokens they have not seen yet; `found` is what the text ones say.

        Of several verdicts on one token, that of a token comes first, then that of the text, limits last.
        """
        looked, self._looked = self._looked, self.entry.history.output_length
        token_ids = self.entry.history.output_token_ids[looked:].tolist()
        text = "" if self.stream is None else "".join(self.stream.pieces[looked:])
        logprobs = [] if self.raw_logprobs is None else self.raw_logprobs[looked:]
        waiting = self._looked < self._min_tokens
        verdict = limit = None
        for criterion, state in self.criteria:
            try:
                said = _ask(criterion, state, token_ids, text, logprobs)  # every state sees every token
            except Exception as error:
                self.fail(failure(criterion.name, error))
                continue
            if not (said is None or isinstance(said, StopVerdict)):
                self.fail(f"{criterion.name} failed: it gave {said!r}, which is no StopVerdict")
                return None
            if said is None or (waiting and criterion.waits_for_min_tokens):
                continue
            if criterion.is_limit:
                limit = limit or said
            else:
                verdict = verdict or said
        if verdict is None:
            verdict = self._text_verdict(found)
        if verdict is None and self.matcher is not None:
            verdict = StopVerdict(None) if self._guarded("the grammar", self._grammar_ends) else None
        if verdict is None and limit is None and self._is_full():
            limit = StopVerdict("max_model_len", "length")
        return verdict or limit

    def _text_verdict(self, found: Found) -> StopVerdict | None:
        """The first of `found` that counts: what ends within the first `min_tokens` tokens does not."""
        waiting = self._looked <= self._min_tokens and self._min_tokens > 0
        for number, verdict in found:
            if not (waiting and self._text_criteria[number].waits_for_min_tokens):
                return verdict
        return None

    def _is_full(self) -> bool:
        return self.max_model_len is not None and len(self.entry.history) >= self.max_model_len


def _ask(
    criterion: StoppingCriteria, state: Any, token_ids: list[int], text: str, logprobs: list[float]
) -> StopVerdict | None:
    if criterion.wants_logprobs:
        return criterion.check(state, token_ids, text, logprobs=logprobs)  # type: ignore[call-arg]
    return criterion.check(state, token_ids, text)


def _modes(params: SamplingParams) -> tuple[str, ...]:
    if params.logprobs is None:
        return ()
    mode = params.logprobs_mode
    return (mode,) if isinstance(mode, str) else tuple(mode)


def _first(*values: int | None) -> int:
    return next(v for v in values if v is not None)
