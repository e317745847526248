"""`DrafterContract`: the laws of drafters as a test class to subclass."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..contract import DraftedText, Drafter, Vocabulary, Work, allocate_bitmask, unpack_bitmask
from ..contract.work import REQUEST_WORK
from ..grammar import Grammar
from ..registry import check_object
from .cases import Random
from .chains import vocabulary_of
from .laws import bounds
from .search.searching import Searching
from .search.surroundings import in_all_surroundings, leaving_them_alone
from .single import values_for

LENGTH, MOST = 40, 9
"""The most tokens of a prompt and of an output, and of a draft."""


class _Request(NamedTuple):
    """A request as it is when drafts are asked for: its tokens, its grammar, or None, and the room."""

    params: Mapping[str, Any]
    vocabulary: Vocabulary
    history: np.ndarray
    draft: tuple[int, ...]
    matcher: Any
    room: int

    def text(self) -> DraftedText:
        work = Work(REQUEST_WORK, REQUEST_WORK)
        return DraftedText(self.history, self.draft, self.vocabulary, self.matcher, work)


class DrafterContract(Searching):
    """The laws of drafters, tried on random texts that repeat themselves, with and without grammars. Subclass
    it; pytest does the rest.

        class TestAgain(DrafterContract):
            drafter = Again()

    params  sets of its own parameters to try; by default the neutral ones.
    rounds  texts for each. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
    seconds, seed  as in `Searching`: how much more is tried at random.
    """

    drafter: ClassVar[Drafter]
    params: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    rounds: ClassVar[int] = 24

    def test_the_declaration_is_sound(self) -> None:
        check_object(self.drafter, (Drafter,))
        assert "__doc__" in vars(type(self.drafter)), f"{type(self.drafter).__name__} has no docstring"
        for param in self.drafter.params:
            for bound in bounds(param):
                param.check(bound)

    def test_a_draft_is_a_list_of_few_token_ids(self) -> None:
        for request in self.requests():
            draft, size = list(self.drafted(request)), request.vocabulary.size
            assert len(draft) <= request.room, f"{len(draft)} ids are drafted where {request.room} may be"
            for token_id in draft:
                is_id = not isinstance(token_id, bool) and 0 <= operator.index(token_id) < size
                assert is_id, f"{token_id!r} is drafted, which is no id of {size} tokens"

    def test_the_same_text_gets_the_same_draft(self) -> None:
        for request in self.requests():
            expected = self.drafted(request)
            self.drafted(next(self.requests()))
            for _ in range(2):
                self.expect(self.drafted(request), expected, "for the same text", request)

    def test_tokens_may_arrive_in_any_portions(self) -> None:
        for number, request in enumerate(self.requests()):
            state, at = self.state(request), 0
            for width in np.random.default_rng(number).integers(1, 6, len(request.history)).tolist():
                self.accept(state, request.history[at : at + width].tolist())
                at += width
            self.expect(self.asked(state, request), self.drafted(request), "in other portions", request)

    def test_rollback_undoes_accept(self) -> None:
        for number, request in enumerate(self.requests()):
            state, random = self.state(request), np.random.default_rng(number)
            at, tokens = 0, request.history.tolist()
            while at < len(tokens):
                wrong = random.integers(0, request.vocabulary.size, int(random.integers(0, 5))).tolist()
                self.accept(state, wrong)
                self.rollback(state, len(wrong))
                self.accept(state, tokens[at : at + 3])
                at += 3
            self.expect(self.asked(state, request), self.drafted(request), "after rollback", request)

    def test_a_fork_goes_its_own_way(self) -> None:
        for request in self.requests():
            state, half = self.state(request), len(request.history) // 2
            self.accept(state, request.history[:half].tolist())
            child = self.drafter.fork(state)
            self.accept(child, request.history[half:].tolist())
            self.accept(state, request.history[:half].tolist())
            self.expect(self.asked(child, request), self.drafted(request), "of a fork", request)

    def test_what_it_is_shown_is_only_read(self) -> None:
        for request in self.requests():
            state, tokens, params = self.state(request), request.history.tolist(), dict(request.params)
            self.accept(state, tokens)
            before, mask = copy.deepcopy((tokens, request.history)), _mask(request)
            self.asked(state, request)
            same = tokens == before[0] and np.array_equal(request.history, before[1])
            assert same, f"{self.drafter.name} changes tokens"
            assert params == dict(request.params), f"{self.drafter.name} changes parameters"
            assert np.array_equal(mask, _mask(request)), f"{self.drafter.name} changes the matcher"

    def test_surroundings_do_not_matter(self) -> None:
        requests = list(self.requests())[:6]
        expected = [self.drafted(request) for request in requests]
        with leaving_them_alone(self.drafter.name):
            self.drafted(requests[0])
        for where, drafts in in_all_surroundings(lambda: [self.drafted(request) for request in requests]):
            assert drafts == expected, f"the drafts are others {where}"

    # --- trials ----------------------------------------------------------------------------------

    def requests(self) -> Iterator[_Request]:
        """Random requests for each parameter set."""
        for values in self.params:
            params = values_for(self.drafter, values)
            self.drafter.check(params)
            yield from (_request(random, params) for random in self.draws(self.rounds))

    def state(self, request: _Request) -> Any:
        """The state of a request without tokens."""
        return self.drafter.new_state(request.params, request.vocabulary)

    def accept(self, state: Any, token_ids: list[int]) -> None:
        if state is not None and token_ids:
            self.drafter.accept(state, token_ids)

    def rollback(self, state: Any, n: int) -> None:
        if state is not None and n:
            self.drafter.rollback(state, n)

    def drafted(self, request: _Request) -> list[Any]:
        """The draft of a request."""
        state = self.state(request)
        self.accept(state, request.history.tolist())
        return self.asked(state, request)

    def asked(self, state: Any, request: _Request) -> list[Any]:
        """The draft of a request whose state has read the history, and reads the draft for this."""
        self.accept(state, list(request.draft))
        draft = list(self.drafter.draft(state, request.text(), request.room))
        self.rollback(state, len(request.draft))
        return draft

    def expect(self, draft: list[Any], expected: list[Any], where: str, request: _Request) -> None:
        assert draft == expected, (
            f"{self.drafter.name} drafts {draft} {where}, else {expected}, "
            f"after {request.history.tolist()} and the draft {list(request.draft)}"
        )


def _request(random: Random, params: Mapping[str, Any]) -> _Request:
    """A text of few tokens that repeats itself, perhaps under a grammar, with a draft behind it."""
    vocabulary = vocabulary_of(int(random.integers(8, 90)))
    few = random.integers(0, vocabulary.size, int(random.integers(1, 6)))
    prompt = random.choice(few, int(random.integers(0, LENGTH))).tolist()
    matcher, output = _under_grammar(random, vocabulary) if random.random() < 0.5 else (None, prompt[:9])
    ahead = int(random.integers(0, 1 + min(3, len(output))))
    history = np.array([*prompt, *output[: len(output) - ahead]], np.int64)
    history.flags.writeable = False
    draft = tuple(output[len(output) - ahead :])
    return _Request(params, vocabulary, history, draft, matcher, int(random.integers(1, MOST + 1)))


def _under_grammar(random: Random, vocabulary: Vocabulary) -> tuple[Any, list[int]]:
    """A matcher, and some tokens that it has read: parts of the text are forced."""
    assert vocabulary.tokenizer is not None, "the vocabularies of trials have tokenizers"
    matcher = Grammar.from_regex("(abab[ab]bbaa ?a\n){2,5}").compile(vocabulary.tokenizer).matcher()
    output: list[int] = []
    for _ in range(int(random.integers(0, 12))):
        allowed = np.flatnonzero(_allowed(matcher, vocabulary.size)).tolist()
        output.append(int(random.choice(allowed)))
        matcher.accept(output[-1])
        if matcher.is_terminated():
            break
    return matcher, output


def _allowed(matcher: Any, size: int) -> np.ndarray:
    """bool [vocab], the tokens that may follow."""
    bitmask = allocate_bitmask(1, size)
    matcher.fill_bitmask(bitmask)
    return unpack_bitmask(bitmask[0], size)


def _mask(request: _Request) -> np.ndarray:
    matcher, size = request.matcher, request.vocabulary.size
    return np.ones(size, bool) if matcher is None else _allowed(matcher, size)
