"""`MatcherContract`: the laws of what constrains a request's text, as a test class to subclass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..contract import Vocabulary, bitmask_words, unpack_bitmask
from ..grammar.plugin.constraints import matcher_of
from ..params import SamplingParams
from ..scheduler import Scheduler
from ..tokenizer import Tokenizer
from .bounded import BoundedLaws
from .search.surroundings import expect_nothing_kept, in_all_surroundings, leaving_them_alone
from .search.texts import View, view_of, views_along

METHODS = (
    "fill_bitmask",
    "accept",
    "accept_bytes",
    "rollback",
    "fork",
    "is_accepting",
    "is_terminated",
    "validate",
)
LENGTH = 16
"""How many tokens the random texts have at most."""

TRIED = 300
"""At most this many tokens are tried one by one."""


class MatcherContract(BoundedLaws):
    """The laws of matchers, tried on random texts. Subclass it; pytest does the rest.

        class TestTypedExpressions(MatcherContract):
            grammar = TypedExpressions()
            tokenizer = Tokenizer([*pieces, b"<end>"], [len(pieces)])
            texts = ["1 + 1", 'let x: str = "" in x']
            other_texts = ["1 +", 'true + "a"']

    grammar      what `Scheduler.add(grammar=…)` takes: a compiled grammar, a matcher at its beginning, an
                 object with `compile(tokenizer)`, a function of the tokenizer, Lark text, or a name.
    tokenizer    a tokenizer with at least one EOS token; a few hundred tokens are plenty.
    texts        whole texts of the language, whose bytes the tokens can spell.
    other_texts  texts that are not in it.
    rounds       how many random texts. ENGINE_SAMPLER_TEST_ROUNDS multiplies them.
    sequences, seconds, seed  as in `Searching`: how much more is tried at random.
    """

    grammar: ClassVar[Any]
    tokenizer: ClassVar[Tokenizer]
    texts: ClassVar[Sequence[str | bytes]] = ()
    other_texts: ClassVar[Sequence[str | bytes]] = ()
    rounds: ClassVar[int] = 8

    # --- laws of one text ----------------------------------------------------------------------------

    def test_a_matcher_has_all_methods(self) -> None:
        matcher = self.matcher()
        missing = [name for name in METHODS if not callable(getattr(matcher, name, None))]
        assert not missing, f"{type(matcher).__name__} lacks {', '.join(missing)}"

    def test_whole_texts_are_accepted_in_any_tokens(self) -> None:
        assert self.texts, f"{type(self).__name__} has no texts: name at least one of the language"
        for number in self.numbers(self.rounds):
            for text in map(bytes_of, self.texts):
                matcher, rest = self.matcher(), text
                for token in self.spelled(text, np.random.default_rng(number)):
                    seen = text[: len(text) - len(rest)]
                    assert token in self.view(matcher).tokens, f"{self.shown(token)} is masked after {seen!r}"
                    assert matcher.accept(token), f"{self.shown(token)} is refused after {seen!r}"
                    rest = rest[len(self.tokenizer.token_bytes[token]) :]
                assert matcher.is_accepting(), f"the text {text!r} may not end"

    def test_other_texts_are_refused(self) -> None:
        for text in map(bytes_of, self.other_texts):
            matcher = self.matcher()
            whole = matcher.accept_bytes(text) and matcher.is_accepting()
            assert not whole, f"{text!r} is accepted, which is not in the language"

    def test_the_mask_is_what_accept_takes(self) -> None:
        for matcher, text in self.walks():
            view = self.view(matcher)
            for token in self.tried(view):
                accepted, allowed = bool(matcher.fork().accept(token)), token in view.tokens
                assert accepted == allowed or view.terminated, (
                    f"accept {'takes' if accepted else 'refuses'} {self.shown(token)}, which the mask "
                    f"{'allows' if allowed else 'forbids'}, after {self.text(text)!r}"
                )

    def test_a_refused_token_changes_nothing(self) -> None:
        for matcher, text in self.walks():
            before = self.view(matcher)
            for token in (-1, len(self.tokenizer), 2**31 - 1, *self.tried(before)[:20]):
                if token not in before.tokens:
                    where = f"for {self.shown(token)}, which may not follow {self.text(text)!r}"
                    assert not matcher.accept(token), f"accept gives True {where}"
                    self.expect_view(matcher, before, where)

    def test_eos_may_follow_where_the_text_may_end(self) -> None:
        for matcher, text in self.walks():
            view, where = self.view(matcher), f"after {self.text(text)!r}"
            if view.terminated:
                continue
            for eos in self.tokenizer.eos_token_ids:
                allowed = eos in view.tokens
                answers = f"the mask has EOS: {allowed}, is_accepting gives {view.accepting}"
                assert allowed == view.accepting, f"{answers} {where}"
                ended = matcher.fork()
                if ended.accept(eos):
                    assert ended.is_terminated(), f"is_terminated gives False after EOS {where}"
                    others = [t for t in self.tried(view) if t not in self.tokenizer.eos_token_ids]
                    taken = [t for t in others if ended.fork().accept(t)]
                    assert not taken, f"{self.shown(taken[0])} is accepted after EOS {where}"
                    assert not ended.fork().accept_bytes(b"a"), f"accept_bytes gives True after EOS {where}"
                    left = set(self.view(ended).tokens) - set(self.tokenizer.eos_token_ids)
                    assert not left, f"the mask allows {self.shown(min(left))} after EOS {where}"
            assert not matcher.is_terminated(), f"is_terminated gives True without EOS {where}"

    def test_a_text_that_may_not_end_can_go_on(self) -> None:
        for matcher, text in self.walks():
            view = self.view(matcher)
            assert view.accepting or view.tokens or view.terminated, (
                f"no token may follow {self.text(text)!r}"
            )

    def test_accept_bytes_agrees_with_accept(self) -> None:
        for matcher, text in self.walks():
            view = self.view(matcher)
            ordinary = (
                set(view.tokens) - set(self.tokenizer.special_token_ids) - set(self.tokenizer.eos_token_ids)
            )
            for token in self.tried(view)[:12]:
                piece = self.tokenizer.token_bytes[token]
                if token not in ordinary or not piece:
                    continue
                by_token, by_bytes, singly = matcher.fork(), matcher.fork(), matcher.fork()
                by_token.accept(token)
                where = f"for {piece!r} after {self.text(text)!r}"
                assert by_bytes.accept_bytes(piece), f"accept_bytes gives False {where}"
                for byte in piece:
                    assert singly.accept_bytes(bytes([byte])), (
                        f"accept_bytes gives False byte by byte {where}"
                    )
                self.expect_view(by_bytes, self.view(by_token), f"between accept_bytes and accept {where}")
                self.expect_view(singly, self.view(by_token), f"byte by byte {where}")

    def test_forced_tokens_must_follow(self) -> None:
        for texts in self.forced():
            for at, forced, rest, ended in texts:
                spelled, follows = self.text(forced), self.text(rest)
                agrees = follows.startswith(spelled) if ended else _one_begins_the_other(spelled, follows)
                assert agrees, (
                    f"forced_tokens gives {spelled!r} after {at!r}, but {follows!r} may follow as well"
                )

    def test_validate_counts_the_tokens_that_follow(self) -> None:
        for number, (matcher, text) in enumerate(self.walks()):
            random, before = np.random.default_rng(number), self.view(matcher)
            if before.terminated:
                continue
            trial = matcher.fork()
            tokens: list[int] = []
            while len(tokens) < number % 40 and not trial.is_terminated():
                if not (allowed := self.view(trial).tokens):
                    break
                tokens.append(int(random.choice(allowed)))
                trial.accept(tokens[-1])
            tokens += random.integers(0, len(self.tokenizer) + 2, 2).tolist()
            trial = matcher.fork()
            right = next((i for i, token in enumerate(tokens) if not trial.accept(token)), len(tokens))
            found, where = matcher.validate(tokens), f"for {tokens} after {self.text(text)!r}"
            assert found == right, f"validate gives {found}, not {right}, {where}"
            self.expect_view(matcher, before, f"after validate {where}")

    def test_a_mask_fills_its_row_alone(self) -> None:
        for number, (matcher, text) in enumerate(self.walks()):
            random, where = np.random.default_rng(number), f"after {self.text(text)!r}"
            rows, more_words = int(random.integers(2, 40)), int(random.integers(3))
            row, masks = int(random.integers(rows)), []
            for before in (0, -1):
                wide = np.full((rows, bitmask_words(len(self.tokenizer)) + more_words), before, np.int32)
                matcher.fill_bitmask(wide, row)
                others = np.delete(wide, row, axis=0)
                assert (others == before).all(), f"fill_bitmask writes to other rows {where}"
                masks.append(tuple(np.flatnonzero(unpack_bitmask(wide[row], len(self.tokenizer))).tolist()))
            assert masks[0] == masks[1], f"fill_bitmask leaves bits as they were {where}"
            assert masks[0] == self.view(matcher).tokens, (
                f"the mask in row {row} of {rows} is another one {where}"
            )

    # --- laws of several texts -----------------------------------------------------------------------

    def test_rollback_undoes_accept(self) -> None:
        for number in self.numbers(self.rounds):
            matcher, views, tokens = self.matcher(), [], []
            for token in self.random_tokens(number):
                views.append(self.view(matcher))
                matcher.accept(token)
                tokens.append(token)
            views.append(self.view(matcher))
            for back in (0, 1, len(tokens) // 2, len(tokens)):
                matcher.rollback(back)
                at = len(tokens) - back
                self.expect_view(matcher, views[at], f"after rollback({back}) of {self.text(tokens)!r}")
                for token, view in zip(tokens[at:], views[at + 1 :], strict=True):
                    assert matcher.accept(token), f"{self.shown(token)} is refused after rollback({back})"
                    self.expect_view(matcher, view, f"after rollback({back}) and accept")

    def test_a_fork_is_independent(self) -> None:
        for number in self.numbers(self.rounds):
            tokens = self.random_tokens(number)
            plain, parent = self.matcher(), self.matcher()
            for token in tokens[: len(tokens) // 2]:
                plain.accept(token)
                parent.accept(token)
            child, other = parent.fork(), parent.fork()
            for token in self.random_tokens(number + 1, other):
                other.accept(token)
            second_half = tokens[len(tokens) // 2 :]
            for token in second_half:
                self.expect_view(parent, self.view(plain), "after a fork went on")
                self.expect_view(child, self.view(plain), "in a fork")
                for matcher in (plain, parent, child):
                    assert matcher.accept(token), f"{self.shown(token)} is refused after a fork went on"
            child.rollback(len(second_half))
            self.expect_view(parent, self.view(plain), "after a fork rolled back")
            plain.rollback(len(tokens))
            child.rollback(len(tokens) - len(second_half))
            self.expect_view(child, self.view(plain), "in a fork that rolls back beyond its beginning")

    def test_requests_share_no_state(self) -> None:
        for number in self.numbers(self.rounds):
            beginning = self.view(self.matcher())
            texts = [self.random_tokens(2 * number), self.random_tokens(2 * number + 1)]
            alone = []
            for text in texts:
                matcher, seen = self.matcher(), []
                for token in text:
                    matcher.accept(token)
                    seen.append(self.view(matcher))
                alone.append(seen)
            self.expect_view(self.matcher(), beginning, "at the beginning of another request")
            both = [self.matcher(), self.matcher()]
            for at in range(max(map(len, texts))):
                for matcher, text, seen in zip(both, texts, alone, strict=True):
                    if at < len(text):
                        matcher.accept(text[at])
                        self.expect_view(matcher, seen[at], "while another request is running")

    def test_requests_beside_others_do_as_alone(self) -> None:
        from .search import matchers  # which needs Hypothesis

        self.search(partial(matchers.TextMachine, self.matcher, self.tokenizer), matchers.LENGTH)

    def test_surroundings_do_not_matter(self) -> None:
        for number in self.numbers(2):
            tokens = self.random_tokens(number)
            along = partial(views_along, self.constraint(), self.tokenizer, tokens)
            with leaving_them_alone("the matcher"):
                expected = along()
            expect_nothing_kept("the matcher", along)
            for where, views in in_all_surroundings(along, along):
                assert views == expected, f"masks or ends differ {where}, in {self.text(tokens)!r}"

    def test_a_scheduler_keeps_its_text_in_the_language(self) -> None:
        for number in self.numbers(self.rounds):
            plain, ended = self.generated(number, drafts=False)
            drafted, _ = self.generated(number, drafts=True)
            assert plain == drafted, f"with drafts the tokens are {drafted}, else {plain}"
            matcher = self.matcher()
            for token in plain:
                assert matcher.accept(token), (
                    f"{self.shown(token)} is refused in the text {self.text(plain)!r}"
                )
            assert not ended or matcher.is_terminated(), f"the request ends after {self.text(plain)!r}"

    # --- helpers ---------------------------------------------------------------------------------

    def matcher(self) -> Any:
        """A matcher at the beginning of a text."""
        grammar, tokenizer = type(self).grammar, self.tokenizer
        found = matcher_of(grammar, Vocabulary(len(tokenizer), tuple(tokenizer.eos_token_ids), tokenizer))
        return found.fork() if found is grammar else found

    def constraint(self) -> Any:
        """What a request is given as its grammar."""
        return self.matcher()

    def view(self, matcher: Any) -> View:
        return view_of(matcher, len(self.tokenizer))

    def expect_view(self, matcher: Any, right: View, where: str) -> None:
        view = self.view(matcher)
        if view == right:
            return
        if view.tokens != right.tokens:
            other = min(set(view.tokens) ^ set(right.tokens))
            raise AssertionError(f"the mask differs at {self.shown(other)} {where}")
        raise AssertionError(f"is_accepting and is_terminated are {view[1:]}, not {right[1:]}, {where}")

    def random_tokens(self, number: int, matcher: Any = None) -> list[int]:
        """Up to LENGTH tokens that may follow, rarely EOS; they are not accepted."""
        random = np.random.default_rng(number)
        trial = self.matcher() if matcher is None else matcher.fork()
        tokens: list[int] = []
        while len(tokens) < LENGTH and not trial.is_terminated():
            allowed = np.array(self.view(trial).tokens, np.int64)
            others = allowed[~np.isin(allowed, self.tokenizer.eos_token_ids)]
            if len(others) and random.random() < 0.9:
                allowed = others
            if not len(allowed):
                break
            token = int(random.choice(allowed))
            if not trial.accept(token):
                break
            tokens.append(token)
        return tokens

    def walks(self) -> Iterator[tuple[Any, list[int]]]:
        """A matcher before and after each token of random texts, and its tokens so far."""
        for number in self.numbers(self.rounds):
            matcher, text = self.matcher(), []
            tokens = self.random_tokens(number)
            yield matcher, []
            for token in tokens:
                matcher.accept(token)
                text.append(token)
                yield matcher, list(text)

    def forced(self) -> Iterator[Iterator[tuple[bytes, list[int], list[int], bool]]]:
        """For each random text: what comes before a place, the tokens forced there, those that follow, and
        whether the text ends with them."""
        for number in self.numbers(self.rounds):
            matcher, tokens, places = self.matcher(), self.random_tokens(number), []
            if not hasattr(matcher, "forced_tokens"):
                return
            for at in range(len(tokens) + 1):
                before, forced = self.view(matcher), list(matcher.forced_tokens() or ())
                taken = matcher.fork()
                refused = next((token for token in forced if not taken.accept(token)), None)
                where = f"after {self.text(tokens[:at])!r}"
                assert refused is None, f"forced_tokens gives {forced}, but {refused} is refused {where}"
                self.expect_view(matcher, before, f"after forced_tokens, {where}")
                places.append((self.text(tokens[:at]), forced, tokens[at:]))
                if at < len(tokens):
                    matcher.accept(tokens[at])
            ended = matcher.is_terminated()
            yield ((*one, ended) for one in places)

    def generated(self, number: int, *, drafts: bool) -> tuple[list[int], bool]:
        """The tokens of a request with random logits, and whether the grammar has ended it."""
        size, random = len(self.tokenizer), np.random.default_rng(number)
        logits = random.normal(0, 3, (LENGTH + 4, size)).astype(np.float32)
        guesses = random.integers(0, size, (LENGTH + 4, 3))
        scheduler = Scheduler(size, self.tokenizer, backend="numpy")
        params = SamplingParams(seed=number, max_tokens=LENGTH)
        request_id = scheduler.add(params, grammar=self.constraint())
        at = 0
        while scheduler.request_ids:
            more = guesses[at].tolist() if drafts else []
            rows = logits[at : at + 1 + len(more)]
            result = scheduler.step(rows, draft_token_ids=[more[: len(rows) - 1]])
            assert result.errors[0] is None, f"the request ends with the error {result.errors[0]}"
            at += len(result.tokens(0))
        record = scheduler.record(request_id)
        return list(record.token_ids), record.finish_reason == "stop"

    def tried(self, view: View) -> list[int]:
        """Tokens to try: all of them, or some that may follow and some others."""
        size = len(self.tokenizer)
        if size <= TRIED:
            order = np.random.default_rng(len(view.tokens)).permutation(size)
            return order.tolist()
        random = np.random.default_rng(len(view.tokens))
        few = random.permutation(np.array(view.tokens, np.int64))[: TRIED // 2]
        return random.permutation(np.unique([*few, *random.integers(0, size, TRIED // 2)])).tolist()

    def spelled(self, text: bytes, random: np.random.Generator) -> list[int]:
        """`text` in random tokens."""
        special = {*self.tokenizer.special_token_ids, *self.tokenizer.eos_token_ids}
        pieces = [(t, p) for t, p in enumerate(self.tokenizer.token_bytes) if p and t not in special]
        tokens: list[int] = []
        while text:
            fitting = [(token, piece) for token, piece in pieces if text.startswith(piece)]
            assert fitting, f"no token begins the rest of a text, {text!r}"
            token, piece = fitting[int(random.integers(len(fitting)))]
            tokens.append(token)
            text = text[len(piece) :]
        return tokens

    def text(self, tokens: Sequence[int]) -> bytes:
        """The bytes of tokens, without EOS."""
        eos = self.tokenizer.eos_token_ids
        return b"".join(self.tokenizer.token_bytes[token] for token in tokens if token not in eos)

    def shown(self, token: int) -> str:
        inside = 0 <= token < len(self.tokenizer)
        return f"token {token}" + (f" ({self.tokenizer.token_bytes[token]!r})" if inside else "")


def bytes_of(text: str | bytes) -> bytes:
    """A text in UTF-8."""
    return text.encode() if isinstance(text, str) else text


def _one_begins_the_other(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)
