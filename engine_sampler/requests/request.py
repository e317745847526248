"""One live request: its state, grammar, text and stop checks, kept in step with each other."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base.calling import call_for_add, call_plugin
from ..base.errors import PluginFault, quoted
from ..contract import Chain, ParameterError, Rows, Sampler, StopVerdict, Vocabulary, Work
from ..params import SamplingParams, build_chain
from .answers import AnswerReader
from .bans import BannedText, Rewind, text_of
from .budget import Share
from .constraint import Constraint, constrained_by
from .detokenizer import MatchedEnds
from .ending import RequestEnd, RequestError
from .history import History
from .parts import RecordedLogprobs, RequestPart, faults_of
from .results import (
    CapturedTokens,
    NoCaptures,
    Parts,
    PromptScoring,
    Record,
    RequestId,
    StepDetails,
    modes_of,
)
from .single_phase import phases_for
from .slots import CheckTrigger, Slots
from .state import RequestState
from .stop_checks import StopChecks

Preparing = Sequence[tuple[Sampler, Rows]]
"""Samplers that prepare, each with a request as a single row."""

_PARTS = {
    "text": "the text",
    "raw_logprobs": "the logprobs",
    "stop_checks": "the stop checks",
    "answer": "the parser",
    "drafting": "the drafters",
}
"""The attributes of a request that are a `RequestPart` or None, and what errors call them."""


class Request(RequestEnd):
    """A request from `add` to its end: its tokens, and what follows these. All of that changes together, in
    `accept` and `rollback`. Without `ends`, none of its tokens ends it, and it has no text.

    state           history, and the states of samplers and selector.
    slot            its row number in the slot table; −1 without one.
    phases          where it is in the phases that its parameters describe, or in the parts of its grammar in
                    which other parameters hold. Its state and its grammar follow that.
    constraint      its grammar, which may not hold in all phases; None without one.
    grammar         the same where it holds, else None.
    has_moved       whether its row belongs into another group than in the last step.
    position        the index of its next token when it gets a slot; None: the length of its history.
    given_grammar   the argument `grammar` that it was added with.
    logprobs_modes  the kinds of logprobs that it requests.
    details         what it wants to know of its steps beside these; None for most.
    prompt_scoring  the rows of its prompt that are to be scored; None for most.
    text            None without a tokenizer.
    raw_logprobs    None unless siblings compete or a criterion needs them.
    stop_checks     whether it ends.
    answer          what reads its output; None without a parser.
    drafting        the states of its drafters; None until drafts are asked for.
    score           what a beam search ranks it by, once it has ended.
    backlog         tokens chosen elsewhere, each with its logprob, which its grammar has not accepted yet:
                    that takes more work than a step may do. Replaced, never changed in place.
    is_reported     whether observers have been told that it has finished.
    has_begun       whether they have been told of its first token, or it came with tokens.
    healed          the token that was the prompt's last, with whose text the first one of the output begins;
                    None without one.
    bans            its text if that has bans; None without.
    rewinding       what `bans.rewinds` will be once the step is over: it goes back to the last of them then.
    """

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
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        ends: bool = True,
        rewinds: Sequence[Rewind] = (),
        healed: int | None = None,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.id = request_id
        self.params = params
        self.seed = seed_of(params) if seed is None else seed
        self.constraint = self.grammar = constrained_by(matcher, vocabulary)
        self.chain: Chain = build_chain(params)
        self.state = RequestState(self.chain, history)
        self.phases = phases_for(params, vocabulary, history, self.constraint)
        if self.phases.is_single:
            self.state.open(params, vocabulary)
        self.has_moved = False
        self.slot = -1
        self.position: int | None = None
        self.given_grammar: Any = None
        self.answer: AnswerReader | None = None
        self.drafting: RequestPart | None = None
        self.stop_checks = StopChecks(
            params, history.prompt_token_ids, vocabulary, stopping_criteria, max_model_len, ends=ends
        )
        self.healed = healed
        self.text = text_of(params, vocabulary, history, self.stop_checks, healed) if ends else None
        self.has_bans = bool(self.stop_checks.bans)
        self.raw_logprobs: RecordedLogprobs | None = None
        self.logprobs_modes = () if params.logprobs is None else modes_of(params)
        self.details = StepDetails.of(params, vocabulary)
        self.prompt_scoring: PromptScoring | None = None
        self.score: float | None = None
        self.backlog: list[tuple[int, float]] = []
        self.is_reported = False
        self.has_begun = len(history.output_token_ids) > 0
        self.rewinding: tuple[Rewind, ...] | None = None
        self.phases.open(self)
        self._resume(history.output_token_ids.tolist(), logprobs)
        if self.bans is not None:
            self.bans.resume(rewinds)

    # --- facts -----------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """Its tokens."""
        return self.state.history.whole

    @property
    def needs_logprobs(self) -> bool:
        """Whether logprobs of its tokens are needed: for the user, to compete with siblings, or by a
        criterion."""
        wants = bool(self.logprobs_modes) or self.details is not None
        return wants or self.raw_logprobs is not None

    @property
    def cumulative_logprob(self) -> float | None:
        """Sum of the raw logprobs of the output, if they are known."""
        return None if self.raw_logprobs is None else math.fsum(self.raw_logprobs)

    @property
    def bans(self) -> BannedText | None:
        return self.text if self.has_bans else None  # type: ignore[return-value]

    @property
    def heals(self) -> bool:
        """Whether its next token begins with the text of the one that was the prompt's last."""
        return self.healed is not None and not self.history.output_length

    @property
    def is_narrowed(self) -> bool:
        """Whether its next row has a mask that is not its grammar's: of its bans, or of the token to heal."""
        return (self.bans is not None and bool(self.bans.banned)) or self.heals

    @property
    def is_masked(self) -> bool:
        """Whether its next row has a mask."""
        return self.grammar is not None or self.is_narrowed

    @property
    def may_look_ahead(self) -> bool:
        """Whether its rows can be prepared before the tokens ahead of them have joined: it has no phases, no
        samplers that prepare, no mask but a grammar's, and no grammar that is not our own."""
        is_plain = self.phases.is_single and not self.chain.preparing and not self.is_narrowed
        return is_plain and (self.grammar is None or self.grammar.is_own)

    def begins(self) -> bool:
        """Whether its output has its first token, said once."""
        began, self.has_begun = self.has_begun, self.has_begun or len(self.history.output_token_ids) > 0
        return self.has_begun and not began

    def record(self, finish_reason: str | None = None) -> Record:
        """All that is known of it now; `finish_reason` if it has not finished."""
        return Record(
            request_id=self.id,
            prompt_token_ids=Parts(self.history.prompt_token_ids),
            token_ids=Parts(self.history.copy_of_output()),
            text=None if self.text is None else Parts(self.text.told()),
            finish_reason=self.finish_reason or finish_reason,
            stop_reason=self.stop_reason,
            error=self.error,
            seed=self.seed,
            cumulative_logprob=self.cumulative_logprob,
            score=self.score,
            phase_tokens=self.phases.told(len(self.history)),
            unenforced=self._unenforced(),
            rewinds=0 if self.bans is None else self.bans.draws,
            captures=self._captures(),
            parser=None if self.answer is None else self.answer.parser,
        )

    def _unenforced(self) -> list[str]:
        of_schema = [] if self.constraint is None else self.constraint.unenforced
        return of_schema if self.bans is None or self.bans.passed is None else [*of_schema, self.bans.passed]

    def _captures(self) -> NoCaptures | CapturedTokens:
        if self.constraint is None:
            return NoCaptures()
        output, begin = self.history.copy_of_output(), self.phases.grammar_begin
        first = len(output) if begin is None else begin - self.history.prompt_length
        return self.constraint.captures(output, first)

    def check_trigger(self) -> CheckTrigger:
        """After which tokens `follow` must be called, besides those that end a grammar or a text."""
        always = self.raw_logprobs is not None or bool(self.state.eager) or self.has_bans
        return self.phases.trigger(self.stop_checks.trigger(self.history.prompt_length, always))

    # --- changes ---------------------------------------------------------------------------------

    def preparing(self, slots: Slots) -> Preparing:
        """The samplers of its chain that prepare, each with the request as a single row."""
        rows = slots.single(self.slot)
        return [(sampler, rows.bind(sampler)) for sampler in self.chain.preparing]

    def told_phases(self) -> dict[str, int] | None:
        """The tokens of its phases where a step tells them: when it has come into another one, or has
        ended."""
        if (self.live and not self.has_moved) or self.rewinding is not None:
            return None
        counts: dict[str, int] | None = self.attempt("phases", self.phases.told, len(self.history))
        return counts

    def forced_tokens(self) -> list[int]:
        """The tokens about which the phase or the grammar leaves no choice; a grammar that fails ends the
        request."""
        if self.backlog:
            return []
        if forced := self.phases.left_to_force(len(self.history)):
            return list(forced)
        if self.grammar is None:
            return []
        forced_next: list[int] = self.attempt("the grammar", self.grammar.forced_tokens, otherwise=[])
        return forced_next

    def accept(
        self,
        slots: Slots,
        token_id: int,
        note: float | None = None,
        logprob: float | None = None,
        work: Work | None = None,
    ) -> bool:
        """Add a token everywhere; the request may end by it. False if the grammar refuses it, or needs more
        than `work`, which postpones the request."""
        if not self.accept_in_grammar(token_id, work):
            return False
        slots.append(self.slot, [token_id], [note])
        ends = self.accept_in_text(token_id)
        if self.bans is not None:
            self.bans.overlook()
        self.has_moved |= self.has_bans or self.healed is not None
        self.follow(token_id, note, logprob, ends)
        self.lead(slots)
        return True

    def accept_without_slot(self, token_id: int, logprob: float, work: Work | None) -> None:
        """`accept` for a request that has no slot."""
        if self.accept_in_grammar(token_id, work):
            self.state.history.accept([token_id])
            self.follow(token_id, None, logprob, self.accept_in_text(token_id))

    @property
    def postponed(self) -> bool:
        """Whether the step leaves it out, since its grammar or a sampler has more to do."""
        return self.share.postponed or bool(self.backlog)

    @property
    def sits_out(self) -> bool:
        """Whether it gets no token in this step: it has ended, or is postponed."""
        return self.finish_reason is not None or self.share.postponed or bool(self.backlog)

    def accept_in_grammar(self, token_id: int, work: Work | None = None) -> bool:
        """Give the grammar its next token; a token that it refuses ends the request. False, too, if it needs
        more than `work`, which postpones the request."""
        grammar = self.grammar
        if grammar is None:
            return True
        try:  # `attempt`, written out: this is called for each row
            if grammar.accept(token_id, work):
                self.share.turns = 0
                return True
            self.fail(f"the grammar refuses token {token_id}")
        except BaseException as fault:
            self.leave_off("the grammar", fault, work is not None and grammar.bounded)
        return False

    def accept_in_text(self, token_id: int) -> MatchedEnds:
        """Give the text its next token; returns the ends that text criteria find in it."""
        ends: MatchedEnds = ()
        return (
            ends if self.text is None else self.attempt("the text", self.text.push, token_id, otherwise=ends)
        )

    def follow(
        self,
        token_id: int,
        note: float | None = None,
        logprob: float | None = None,
        text_ends: MatchedEnds = (),
    ) -> None:
        """Bring everything but grammar and text up to a token that is in the history; the request may end.

        text_ends  what `accept_in_text` returned for the token.
        """
        if self.raw_logprobs is not None:
            self.raw_logprobs.append(0.0 if logprob is None else logprob)
        self.state.follow([token_id], [note])
        grammar_ended = None if self.grammar is None else self._grammar_has_ended
        outcome = self.stop_checks.check(self.history, self.text, self.raw_logprobs, text_ends, grammar_ended)
        if outcome.fault is not None:
            self.fail(outcome.fault)
        elif self.has_bans and self.live and self._takes_back(outcome.verdict):
            return
        elif outcome.verdict is not None and self.live:
            self.finish(outcome.verdict.finish_reason, outcome.verdict.reason, outcome.verdict.cut)

    def _takes_back(self, verdict: StopVerdict | None) -> bool:
        """Whether a ban takes the newest token back; else it stays, and may end the request."""
        assert self.bans is not None
        cut = 0 if verdict is None else verdict.cut
        self.rewinding = self.bans.rewind_for(cut, self.history.output_token_ids)
        return self.rewinding is not None

    @property
    def withheld(self) -> int:
        """How many of its newest tokens may still be taken back."""
        if self.bans is None or not self.live:
            return 0
        left = self.history.output_length if self.rewinding is None else self.rewinding[-1].position
        return left - self.bans.certain

    def rewind(self, slots: Slots) -> None:
        """Go back to where a ban begins, after the step. May be repeated."""
        assert self.bans is not None
        assert self.rewinding is not None
        rewinds, self.has_moved = self.rewinding, True
        self.rollback(slots, self.history.output_length + len(self.backlog) - rewinds[-1].position)
        self.bans.go_on_from(rewinds)
        slots.redraw(self.slot, self.bans.draws)
        self.rewinding = None

    def steer(self, drawn: int) -> int | None:
        """The token that its phases put in place of the drawn one, −1 if they fail; None if that stays."""
        tokens = self.history.token_ids
        token_id: int | None = self.attempt("phases", self.phases.steer, drawn, tokens, otherwise=-1)
        return token_id

    def lead(self, slots: Slots | None, length: int | None = None) -> None:
        """Let its phases heed its newest token, see `RequestPhases.lead`."""
        if not self.phases.is_single:
            self.attempt("phases", self.phases.lead, self, slots, length)

    def read_answer(self, shared: dict[type, Any]) -> list[Any]:
        """What its parser has read since this was called last."""
        assert self.answer is not None
        events: list[Any] = self.attempt("the parser", self.answer.read, self, shared, otherwise=[])
        return events

    def without_last(self, n: int) -> tuple[list[tuple[int, float]], int]:
        """The backlog and the length of the history without the last n output tokens: those in the backlog
        are the newest."""
        kept = max(len(self.backlog) - n, 0)
        return self.backlog[:kept], len(self.history) - (n - len(self.backlog) + kept)

    def rollback(self, slots: Slots, n: int) -> None:
        """Undo the last n output tokens everywhere; text already streamed stays streamed. A part that cannot
        be rolled back ends the request."""
        self.backlog, length = self.without_last(n)
        faults = self.phases.go_back(self, slots, length)
        for _, title, part in self._parts():
            faults += faults_of(title, part.rollback, self.history.output_length)
        self._go_back_to_draws(slots)
        if faults:
            self.fail(faults[0])

    def _go_back_to_draws(self, slots: Slots) -> None:
        """Draw with the numbers, and under the bans, that it had when it had so many tokens."""
        if self.bans is not None:
            slots.redraw(self.slot, self.bans.draws)
        self.has_moved |= self.has_bans or self.healed is not None

    def rebuild(self, slots: Slots, length: int, since: int | None = None, step: int | None = None) -> None:
        """Make everything anew from the first `length` tokens of the history, after a call that was
        interrupted: what is ahead is undone, and so is what may have been changed by halves. May be repeated.

        since  the number of the last end of a request before the call: an end since then is undone, too.
        step   the number of the step that was interrupted, whose text has not been sent.
        """
        slots.cut(self.slot, length)
        slots.count_watchers()
        if since is not None and self._ending > since:
            self.finish_reason = self.stop_reason = self.error = None
        if since is not None:
            self.rewinding = None
        if self.text is not None and step is not None:
            self.text.take_back(step)
        faults = self.phases.rebuild(self, slots)
        for _, title, part in self._parts():
            faults += faults_of(title, part.rebuild, self, self.history.output_length)
        self._go_back_to_draws(slots)
        if faults and self.live:
            self.fail(faults[0])

    def fork(self, request_id: RequestId, seed: int | None) -> Request:
        """A sibling that continues from here; without `seed` it keeps the seed. Raises `RequestError` if a
        plugin cannot copy its state."""
        try:
            return self._fork(request_id, seed)
        except PluginFault as fault:
            raise RequestError(f"request {quoted(self.id)} cannot be forked: {fault}") from fault

    def _fork(self, request_id: RequestId, seed: int | None) -> Request:
        child = copy.copy(self)
        child.id, child.slot = request_id, -1
        child.seed = self.seed if seed is None else seed
        child.share = Share(self.share.last_turn)
        child.backlog = self.backlog.copy()
        child.state, child.phases = self.state.fork(), self.phases.fork()
        if self.constraint is not None:
            child.constraint = call_plugin("the grammar", self.constraint.fork)
            child.grammar = None if self.grammar is None else child.constraint
        for attribute, title, part in self._parts():
            setattr(child, attribute, call_plugin(title, part.fork))
        return child

    def constrain(self, constraint: Constraint) -> None:
        """Have another grammar, from the beginning."""
        self.constraint = self.grammar = constraint

    # --- inside ----------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[str, str, RequestPart]]:
        """Its parts beside state and grammar, with their attributes, and with what errors call them."""
        for attribute, title in _PARTS.items():
            part = getattr(self, attribute)
            if part is not None:
                yield attribute, title, part

    def _grammar_has_ended(self) -> bool:
        assert self.grammar is not None
        return call_plugin("the grammar", self.grammar.has_ended)

    def _resume(self, output: list[int], logprobs: Sequence[float] | None) -> None:
        """Bring grammar, text and stop checks up to the output that the request starts with."""
        for count, token_id in enumerate(output, 1):
            if self.grammar is not None and not call_for_add("the grammar", self.grammar.accept, token_id):
                raise ParameterError(f"output_token_ids: the grammar refuses token {token_id}")
            if self.text is not None:
                call_for_add("the text", self.text.push, token_id)
            self.lead(None, self.history.prompt_length + count)
        known = [0.0] * len(output) if logprobs is None else logprobs
        self.stop_checks.resume(self.history, self.text, known)
        if self.text is not None:
            self.text.skip(None if self.bans is None else self.bans.certain)
        if self.stop_checks.needs_logprobs or logprobs is not None:
            self.raw_logprobs = self.stop_checks.recorded(known)


def seed_of(params: SamplingParams) -> int:
    """The seed that `params` give, or a random one."""
    requested: int | None = params["seed"]
    return secrets.randbits(64) if requested is None else requested
