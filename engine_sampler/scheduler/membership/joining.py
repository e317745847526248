"""Requests on their way into a scheduler: what it is told of them, checked, and what is built from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...arithmetic import child_seed
from ...base.arguments import entries_of
from ...base.calling import call_for_add
from ...contract import AnswerParser, ParameterError, Vocabulary
from ...contract.constraints import settings_of
from ...params import RequestLimits, SamplingParams, phases_of, takes_grammar, without_takers
from ...registry import check_taken, constraint_reader, structured_in
from ...requests.answers import AnswerReader
from ...requests.bans import Rewind
from ...requests.history import History
from ...requests.request import Request, seed_of
from ...requests.results import PromptScoring, RequestId
from ...requests.slots import ATTEMPT
from ..arguments import token_ids_in
from ..beam_groups import BeamGroup, search_params
from .siblings import sibling_count

if TYPE_CHECKING:
    from ...requests.phases import RequestPhases

Siblings: TypeAlias = tuple[Sequence[Request], "BeamGroup | None"]
"""Requests that join together, and the beam search that they belong to."""


class Terms(Protocol):
    """What a `Scheduler` demands of requests."""

    vocabulary: Vocabulary
    limits: RequestLimits
    max_model_len: int | None


def checked_count(terms: Terms, params: SamplingParams, grammar: Any) -> int:
    """How many requests `params` describe. Raises `ParameterError` if they go beyond the limits, if both they
    and `grammar` give a grammar, or if the grammar engine does not take theirs."""
    count = sibling_count(params)
    terms.limits.check(params, terms.vocabulary.size)
    names = structured_in(params.given)
    if grammar is not None and names:
        raise ParameterError(f"grammar and {names[0]} are not allowed together: at most one of them")
    if names:
        check_taken(constraint_reader(terms.vocabulary.grammar_engine, names[0]), names[0], params)
    return count


def check_single(params: SamplingParams, count: int) -> None:
    """Raise `ParameterError` if `params`, which describe so many requests, need `add_group`."""
    if count > 1 or params["use_beam_search"]:
        several = f"n={params.n}, best_of={params.best_of}"
        named = "use_beam_search=True" if params.use_beam_search else several
        raise ParameterError(f"{named} needs add_group")


def matcher_for(params: SamplingParams, grammar: Any, vocabulary: Vocabulary) -> Any:
    """A matcher for the grammar that is given, or that the parameters name; None without one, and if a
    sampler of the chain takes it."""
    if takes_grammar(params):
        return None
    names = structured_in(params.given)
    if not names and (grammar is None or hasattr(grammar, "fill_bitmask")):
        return grammar
    reader = constraint_reader(vocabulary.grammar_engine, *names[:1])
    return reader.matcher(params, grammar, vocabulary)


@dataclass(frozen=True, eq=False)
class Newcomers:
    """One request, or the siblings of one prompt, before they are built.

    ids       one for each of them.
    params    as they were given.
    history   the tokens that they begin with.
    seed      the first one's; the others' follow from it.
    criteria  further stopping criteria.
    position  the index of the next token; None: the length of the history.
    is_group  whether they compete or search together, even if there is only one.
    limits    those of the scheduler, which also bind the parameters that a grammar sets.
    ends      whether their tokens may end them.
    parser    what reads the first one's answer, the output that they begin with first; copies of it read the
              others'.
    grammar   the argument of that name; None if the parameters name one, or none is.
    logprobs  of the output that they begin with, if they are recorded.
    streamed  the number of tokens of that output whose text is known; None: all.
    prompt_scoring  the rows of their prompt that are to be scored; None: none.
    rewinds   where bans have taken it back.
    passed    why bans have let text stay; None if they have not.
    healed    the token that was the last of the prompt, and is drawn again.
    """

    ids: Sequence[RequestId]
    params: SamplingParams
    history: History
    seed: int
    vocabulary: Vocabulary
    max_model_len: int | None
    criteria: Sequence[Callable[..., Any]]
    position: int | None
    is_group: bool
    limits: RequestLimits
    ends: bool = True
    parser: AnswerParser | None = None
    grammar: Any = None
    logprobs: Sequence[float] | None = None
    streamed: int | None = None
    prompt_scoring: PromptScoring | None = None
    rewinds: Sequence[Rewind] = ()
    passed: str | None = None
    healed: int | None = None

    @classmethod
    def of(
        cls,
        terms: Terms,
        ids: Sequence[RequestId],
        params: SamplingParams,
        tokens: tuple[Sequence[int], Sequence[int]],
        criteria: Sequence[Callable[..., Any]],
        *,
        position: int | None = None,
        is_group: bool = False,
        parser: AnswerParser | None = None,
        grammar: Any = None,
        is_moved: bool = False,
    ) -> Newcomers:
        """Requests that begin with `tokens`, which are their prompt and their output. The token to heal has
        been taken off the prompt of one that `is_moved`. Raises `ParameterError`."""
        vocabulary, max_model_len = terms.vocabulary, terms.max_model_len
        history = History(
            token_ids_in("prompt_token_ids", tokens[0], vocabulary),
            token_ids_in("output_token_ids", tokens[1], vocabulary),
        )
        if max_model_len is not None and len(history) >= max_model_len:
            raise ParameterError(
                f"the prompt has {len(history)} tokens, max_model_len={max_model_len} allows fewer"
            )
        healed = None
        if params["token_healing"] and not is_moved and not history.output_length:
            history, healed = _without_healed(history, params, vocabulary, grammar, parser)
        if not isinstance(criteria, (list, tuple)):
            criteria = entries_of("stopping_criteria", criteria, "a list of criteria")
        return cls(
            ids,
            params,
            history,
            seed_of(params),
            vocabulary,
            max_model_len,
            criteria,
            position,
            is_group,
            terms.limits,
            parser=parser,
            grammar=grammar,
            prompt_scoring=PromptScoring.of(params, history, vocabulary),
            healed=healed,
        )

    def build(self, matcher: Any) -> Siblings:
        """The requests, with `matcher` and copies of it. Raises `ParameterError` and `RequestError`."""
        return self._with_siblings(self._first(self.params, matcher))

    def build_without_grammar(self) -> Siblings:
        """The requests as they are until their grammar has been compiled."""
        return self._with_siblings(self.first_without_grammar())

    def first_without_grammar(self) -> Request:
        """The first of them alone, as it is until its grammar has been compiled."""
        return self._first(without_takers(self.params), None)

    def _first(self, params: SamplingParams, matcher: Any) -> Request:
        rules = settings_of(matcher)
        for _, values in () if rules is None else rules.settings:
            self.limits.check_values(dict(values), self.vocabulary.size)
        request = Request(
            self.ids[0],
            search_params(params) if params.use_beam_search else params,
            self.history.fork(),
            self.vocabulary,
            seed=self.seed,
            matcher=matcher,
            max_model_len=self.max_model_len,
            stopping_criteria=self.criteria,
            ends=self.ends,
            rewinds=self.rewinds,
            healed=self.healed,
            logprobs=self.logprobs,
        )
        if not request.phases.is_single:
            self._limit_phases(request.phases)
        request.position = self.position
        if request.has_bans and (self.position or 0) >= ATTEMPT // 2:
            raise ParameterError(f"position={self.position} is not allowed with bans: less than 2^39")
        if request.bans is not None:
            request.bans.passed = self.passed
        if self.rewinds and request.has_bans:
            length = len(self.history) if self.position is None else self.position
            request.position = length + self.rewinds[-1].draws * ATTEMPT
        request.given_grammar = self.grammar
        request.prompt_scoring = self.prompt_scoring
        if self.parser is not None:
            request.answer = AnswerReader(self.parser)
            call_for_add("the parser", self.parser.feed, request.answer.unread(request))
        if request.text is not None and self.streamed is not None:
            request.text.skip(self.streamed)
        if self.is_group and (params.best_of is not None or params.use_beam_search):
            request.raw_logprobs = request.stop_checks.recorded()
        return request

    def _limit_phases(self, phases: RequestPhases) -> None:
        """Bound what all siblings may cost together by what only their phases tell."""
        phases.siblings = len(self.ids)
        self.limits.check_rows(self.params, phases.automaton.rule_params())
        if phases.automaton.recounts:
            self.limits.check_histories(self.params, self.history.prompt_length)

    def _with_siblings(self, first: Request) -> Siblings:
        group = None
        if self.params.use_beam_search:
            group = BeamGroup.of(self.params, self.ids, len(self.vocabulary.eos_token_ids))
        siblings = [first.fork(r, child_seed(self.seed, i)) for i, r in enumerate(self.ids[1:], 1)]
        return [first, *siblings], group


def _without_healed(
    history: History,
    params: SamplingParams,
    vocabulary: Vocabulary,
    grammar: Any,
    parser: AnswerParser | None,
) -> tuple[History, int | None]:
    """A prompt without its last token, and that token, if it has text. Raises `ParameterError`."""
    tokenizer = vocabulary.need_tokenizer("token_healing", "needs a tokenizer")
    reads = {"a grammar": grammar is not None or structured_in(params.given), "a parser": parser is not None}
    reads |= {"phases": phases_of(params) is not None, "use_beam_search": params["use_beam_search"]}
    for name in (name for name, is_there in reads.items() if is_there):
        raise ParameterError(f"token_healing and {name} are not allowed together")
    prompt = history.prompt_token_ids
    if len(prompt) < 2 or not tokenizer.text_bytes(last := int(prompt[-1])):
        return history, None
    return History(prompt[:-1]), last
