"""`GrammarContract`: the laws of what `register_grammars` registers, as a test class to subclass."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..grammar import Grammar, GrammarError
from ..grammar.service import GrammarSource
from ..params import SamplingParams
from ..scheduler import Scheduler
from ..tokenizer import Tokenizer
from .matchers import LENGTH, MatcherContract, bytes_of
from .search.texts import View, view_of

END = b"<end>"
PADDING = 70
"""How many columns logits have beyond the tokens: more than two words of a bitmask."""

LONGEST, MOST_PIECES = 4, 64
"""The pieces of texts that become tokens: their greatest length in bytes, and about how many there are."""

TEXTS = 3
"""How many random texts the laws of grammars try."""


class GrammarContract(MatcherContract):
    """The laws of registered grammars, and those of their matchers. Subclass it; pytest does the rest.

        class TestDates(GrammarContract):
            grammar = DATES
            texts = ["2026-11-23"]
            other_texts = ["2026-13-01", "2026"]

    grammar    what the plugin registers: Lark text, an object with `compile(tokenizer)`, or a function of
               the tokenizer. `MatcherContract` is for what has a tokenizer: matchers and compiled grammars.
    tokenizer  by default every byte, the pieces of `texts`, and EOS.

    The other attributes are those of `MatcherContract`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "tokenizer"):
            cls.tokenizer = spelling_tokenizer(map(bytes_of, cls.texts))

    # --- laws of the grammar -------------------------------------------------------------------------

    def test_it_can_be_registered(self) -> None:
        grammar = type(self).grammar
        if isinstance(grammar, str):
            try:
                Grammar.from_lark(grammar)
            except GrammarError as error:
                raise AssertionError(f"the text of the grammar cannot be read: {error}") from None
            return
        takes_a_tokenizer = hasattr(grammar, "compile") or callable(grammar)
        assert takes_a_tokenizer, (
            f"{grammar!r} cannot be registered; allowed are Lark text, an object with compile(tokenizer), "
            "and a function of the tokenizer"
        )
        if not isinstance(grammar, Grammar):
            made = grammar.compile if hasattr(grammar, "compile") else grammar
            compiled = made(self.tokenizer)
            assert callable(getattr(compiled, "matcher", None)), (
                f"compile gives {compiled!r}; allowed is an object with matcher()"
            )

    def test_compiling_again_gives_the_same_language(self) -> None:
        for views, tokens in self.recorded():
            self.expect_views(self.compile(self.tokenizer).matcher(), tokens, views, "when compiled again")

    def test_every_request_gets_a_matcher_of_its_own(self) -> None:
        compiled = self.compile(self.tokenizer)
        one, other = compiled.matcher(), compiled.matcher()
        assert one is not other, "matcher() gives the same object twice"
        before = self.view(other)
        for token in self.random_tokens(0):
            one.accept(token)
        self.expect_view(other, before, "after another matcher of the same compiled grammar went on")

    def test_the_numbers_of_the_tokens_do_not_matter(self) -> None:
        n = len(self.tokenizer)
        order = np.random.default_rng(n).permutation(n)  # the new number of every token
        pieces = [b""] * n
        for token, piece in enumerate(self.tokenizer.token_bytes):
            pieces[order[token]] = piece
        special = [int(order[token]) for token in self.tokenizer.special_token_ids]
        other = Tokenizer(pieces, [int(order[token]) for token in self.tokenizer.eos_token_ids], special)
        for views, tokens in self.recorded():
            matcher = self.compile(other).matcher()
            for at, view in enumerate(views):
                found, where = self.view(matcher), self.after(tokens, at)
                right = view._replace(tokens=tuple(sorted(order[list(view.tokens)].tolist())))
                assert found == right, f"the mask differs when tokens have other numbers {where}"
                if at < len(tokens):
                    matcher.accept(int(order[tokens[at]]))

    def test_the_language_is_the_same_for_any_tokenizer(self) -> None:
        bytewise = self.compile(spelling_tokenizer(()))
        silent = {*self.tokenizer.special_token_ids, *self.tokenizer.eos_token_ids}
        for views, tokens in self.recorded():
            plain = bytewise.matcher()
            for at, view in enumerate(views):
                where = self.after(tokens, at)
                if view.terminated:
                    break
                assert plain.is_accepting() == view.accepting, (
                    f"with a token for every byte, is_accepting gives {plain.is_accepting()} {where}"
                )
                for token in self.tried(view):
                    piece = self.tokenizer.token_bytes[token]
                    if piece and token not in silent:
                        spelled, allowed = _takes(plain.fork(), piece), token in view.tokens
                        assert spelled == allowed, (
                            f"the mask {'allows' if allowed else 'forbids'} {self.shown(token)}, whose bytes "
                            f"are {'accepted' if spelled else 'refused'} one by one {where}"
                        )
                if at == len(tokens) or tokens[at] in silent:
                    break
                _takes(plain, self.tokenizer.token_bytes[tokens[at]])

    def test_tokens_without_text_are_masked(self) -> None:
        n = len(self.tokenizer)
        pieces = [*self.tokenizer.token_bytes, b"", b"<|never a text|>", b""]
        more = Tokenizer(pieces, self.tokenizer.eos_token_ids, [*self.tokenizer.special_token_ids, n + 1])
        compiled = self.compile(more)
        for _, tokens in self.recorded():
            matcher = compiled.matcher()
            for at in range(len(tokens) + 1):
                where = self.after(tokens, at)
                beyond = [token for token in view_of(matcher, n + 3).tokens if token >= n]
                assert not beyond, f"the mask allows a token without text {where}"
                taken = [token for token in range(n, n + 3) if matcher.fork().accept(token)]
                assert not taken, f"accept takes a token without text {where}"
                if at < len(tokens):
                    matcher.accept(tokens[at])

    def test_the_padding_of_logits_is_masked(self) -> None:
        size = len(self.tokenizer) + PADDING
        for number in self.numbers(2):
            random = np.random.default_rng(number)
            scheduler = Scheduler(size, self.tokenizer, backend="numpy")
            request_id = scheduler.add(
                SamplingParams(seed=number, max_tokens=LENGTH), grammar=self.constraint()
            )
            while scheduler.request_ids:
                logits = random.normal(0, 3, (1, size)).astype(np.float32)
                logits[:, len(self.tokenizer) :] += 20
                result = scheduler.step(logits)
                assert result.errors[0] is None, f"the request ends with the error {result.errors[0]}"
            beyond = [t for t in scheduler.record(request_id).token_ids if t >= len(self.tokenizer)]
            assert not beyond, f"token {beyond[0]} is drawn, but there are {len(self.tokenizer)} tokens"

    def test_a_copy_has_the_same_language(self) -> None:
        compiled = self.compile(self.tokenizer)
        for what, value in (("the grammar", type(self).grammar), ("the compiled grammar", compiled)):
            for how, duplicate in (("a copy of", copy.deepcopy), ("an unpickled copy of", _pickled)):
                try:
                    other = duplicate(value)
                except Exception:  # nothing requires that it can be copied
                    continue
                made = other if hasattr(other, "matcher") else self.compile(self.tokenizer, other)
                for views, tokens in self.recorded():
                    self.expect_views(made.matcher(), tokens, views, f"in {how} {what}")

    # --- what the shared laws need -------------------------------------------------------------------

    def matcher(self) -> Any:
        if "_compiled" not in vars(self):
            self._compiled = self.compile(self.tokenizer)
        return self._compiled.matcher()

    def constraint(self) -> Any:
        return type(self).grammar

    # --- helpers -------------------------------------------------------------------------------------

    def compile(self, tokenizer: Tokenizer, grammar: Any = None) -> Any:
        """The grammar of the kit, or another, compiled for a tokenizer as a scheduler does."""
        grammar = type(self).grammar if grammar is None else grammar
        if isinstance(grammar, str):
            grammar = GrammarSource("text", grammar, ()).read()
        return grammar.compile(tokenizer) if hasattr(grammar, "compile") else grammar(tokenizer)

    def recorded(self) -> Iterator[tuple[list[View], list[int]]]:
        """Random texts: what a matcher shows before and after each token, and the tokens."""
        for number in self.numbers(TEXTS):
            matcher, tokens = self.matcher(), self.random_tokens(number)
            views = [self.view(matcher)]
            for token in tokens:
                matcher.accept(token)
                views.append(self.view(matcher))
            yield views, tokens

    def expect_views(self, matcher: Any, tokens: Sequence[int], views: Sequence[View], where: str) -> None:
        """Raise AssertionError unless `matcher` shows `views` before and after each of `tokens`."""
        for at, view in enumerate(views):
            self.expect_view(matcher, view, f"{where}, {self.after(tokens, at)}")
            if at < len(tokens):
                matcher.accept(tokens[at])

    def after(self, tokens: Sequence[int], at: int) -> str:
        return f"after {self.text(tokens[:at])!r}"


def spelling_tokenizer(texts: Iterable[bytes]) -> Tokenizer:
    """A tokenizer with every byte, the pieces of `texts` of up to LONGEST bytes, and EOS."""
    pieces = {t[i : i + n] for t in texts for n in range(2, LONGEST + 1) for i in range(len(t) - n + 1)}
    some = sorted(pieces)[:: 1 + len(pieces) // MOST_PIECES]
    tokens = [*(bytes([byte]) for byte in range(256)), *some, END]
    return Tokenizer(tokens, [len(tokens) - 1])


def _takes(matcher: Any, data: bytes) -> bool:
    """Whether a matcher of `spelling_tokenizer(())`, whose token n is byte n, accepts all of `data`."""
    return all(matcher.accept(byte) for byte in data)


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
