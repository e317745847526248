"""Texts that come and go in random order, each beside a matcher that reads the same text alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...contract import Vocabulary, bitmask_words, unpack_bitmask
from ...grammar.plugin.constraints import matcher_of
from ...tokenizer import Tokenizer
from ..cases import Random
from .drawing import draw_depth
from .surroundings import anywhere

EVENTS = 50
"""What happens in one life."""

BEGINNING = 48
"""How many tokens the first text has before anything happens to it, if it can have them."""

VERY_LONG, _SECONDS = 1100, 0.2
_MOST_LIVE = 4
_LOOKED_AT = 4


class View(NamedTuple):
    """What a matcher shows of its state: the tokens that may follow, and whether the text may end or has."""

    tokens: tuple[int, ...]
    accepting: bool
    terminated: bool


def view_of(matcher: Any, size: int, rows: int = 1, row: int = 0, more_words: int = 0) -> View:
    """What a matcher for `size` tokens shows of its state, by a bitmask of these `rows` and words."""
    bitmask = np.zeros((rows, bitmask_words(size) + more_words), np.int32)
    matcher.fill_bitmask(bitmask, row)
    tokens = np.flatnonzero(unpack_bitmask(bitmask[row], size))
    return View(tuple(tokens.tolist()), bool(matcher.is_accepting()), bool(matcher.is_terminated()))


@dataclass
class _Text:
    """One text: its matcher, and what has been accepted, a token or bytes each."""

    matcher: Any
    accepted: list[int | bytes] = field(default_factory=list)


class MatcherLives:
    """Texts under one grammar, and what happens to them.

    new  gives a matcher at the beginning of a text.
    """

    def __init__(self, new: Callable[[], Any], tokenizer: Tokenizer, random: Random) -> None:
        self._new, self._tokenizer, self._random = new, tokenizer, random
        self._long = random.random() < 0.6
        self._unused = new()
        self._texts = [_Text(new())]
        self._silent = {*tokenizer.special_token_ids, *tokenizer.eos_token_ids}

    def run(self, very_long: bool = False) -> None:
        """Let things happen, at first up to a thousand tokens in a `very_long` life; raises AssertionError
        where a matcher differs from its model."""
        if very_long:
            self._read_on(self._texts[0])
        for _ in range(BEGINNING):
            self._accept(self._texts[0])
        events = (
            *(self._accept, self._accept_many, self._accept_bytes, self._refuse),
            *(self._rollback, self._rollback, self._fork, self._join, self._leave),
        )
        for _ in range(EVENTS):
            text = self._texts[int(self._random.integers(len(self._texts)))]
            event = events[int(self._random.integers(len(events)))]
            anywhere(self._random, partial(event, text))
            everywhere = event in (self._rollback, self._fork) or self._random.random() < 0.2
            for one in self._texts if everywhere else [text]:
                self._compare(one, event.__name__[1:])

    # --- what happens ----------------------------------------------------------------------------

    def _accept(self, text: _Text) -> None:
        """Accept one of the tokens that may follow, mostly one after which many may; a long life takes back
        what leads to the end of a text."""
        allowed = self._view(text.matcher).tokens
        if not allowed or text.matcher.is_terminated():
            if self._long:
                self._roll(text, min(3, len(text.accepted)))
            return
        some = dict.fromkeys(self._random.choice(allowed, _LOOKED_AT).tolist())
        token = max(some, key=lambda token: self._breadth(text.matcher, token) if len(some) > 1 else 0)
        if text.matcher.accept(token):
            text.accepted.append(token)

    def _read_on(self, text: _Text) -> None:
        """Accept any tokens, a thousand if that does not take long, and take back what leads to an end."""
        enough = time.process_time() + _SECONDS
        while len(text.accepted) < VERY_LONG and time.process_time() < enough:
            allowed = self._view(text.matcher).tokens
            if len(allowed) < 2 or text.matcher.is_terminated():
                if len(text.accepted) < 2:
                    return
                self._roll(text, 2)
            elif text.matcher.accept(token := int(self._random.choice(allowed))):
                text.accepted.append(token)

    def _accept_many(self, text: _Text) -> None:
        for _ in range(int(self._random.integers(2, 20))):
            self._accept(text)

    def _accept_bytes(self, text: _Text) -> None:
        allowed = [token for token in self._view(text.matcher).tokens if token not in self._silent]
        if allowed and not text.matcher.is_terminated():
            piece = self._tokenizer.token_bytes[int(self._random.choice(allowed))]
            data = piece[: int(self._random.integers(1, len(piece) + 1))] if piece else b""
            if data and text.matcher.accept_bytes(data):
                text.accepted.append(data)

    def _refuse(self, text: _Text) -> None:
        """Offer tokens that may not follow, and ask questions, all of which change nothing."""
        allowed = set(self._view(text.matcher).tokens)
        for token in self._random.integers(0, len(self._tokenizer), 4).tolist():
            if token not in allowed:
                assert not text.matcher.accept(token), f"token {token}, which is masked, is accepted"
        text.matcher.validate(self._random.integers(0, len(self._tokenizer), 3).tolist())

    def _rollback(self, text: _Text) -> None:
        self._roll(text, draw_depth(self._random, len(text.accepted)))

    def _fork(self, text: _Text) -> None:
        if len(self._texts) < _MOST_LIVE:
            self._texts.append(_Text(text.matcher.fork(), text.accepted.copy()))

    def _join(self, text: _Text) -> None:
        if len(self._texts) < _MOST_LIVE:
            self._texts.append(_Text(self._new()))

    def _leave(self, text: _Text) -> None:
        if len(self._texts) > 1:
            self._texts = [one for one in self._texts if one is not text]

    # --- helpers ---------------------------------------------------------------------------------

    def _roll(self, text: _Text, n: int) -> None:
        text.matcher.rollback(n)
        kept = len(text.accepted) - n
        undone = [one for one in text.accepted[kept:] if isinstance(one, int)]
        if len(undone) == n:
            count = text.matcher.validate(undone)
            assert count == n, f"validate counts {count} of {n} tokens that have been accepted before"
        del text.accepted[kept:]

    def _view(self, matcher: Any) -> View:
        rows = int(self._random.integers(1, 9))
        row, more_words = int(self._random.integers(rows)), int(self._random.integers(3))
        return view_of(matcher, len(self._tokenizer), rows, row, more_words)

    def _breadth(self, matcher: Any, token: int) -> float:
        """How many tokens may follow `token`; in a short life at times any number, so that texts end."""
        trial = matcher.fork()
        if not trial.accept(token) or (not self._long and self._random.random() < 0.2):
            return self._random.random() * len(self._tokenizer)
        return len(view_of(trial, len(self._tokenizer)).tokens) + self._random.random()

    def _compare(self, text: _Text, what: str) -> None:
        model = self._of_model(text)
        if hasattr(text.matcher, "forced_tokens") and self._random.random() < 0.3:
            forced, trial = text.matcher.forced_tokens() or [], model.fork()
            refused = next((token for token in forced if not trial.accept(token)), None)
            assert refused is None, f"forced_tokens gives {forced}, but {refused} may not follow"
        found, right = self._view(text.matcher), view_of(model, len(self._tokenizer))
        if found != right:
            other = sorted(set(found.tokens) ^ set(right.tokens))
            differs = f"the mask at tokens {other[:5]}" if other else f"{found[1:]} and {right[1:]}"
            raise AssertionError(
                f"a matcher differs from one that has read its text alone, {differs}, after {what}, "
                f"{self._shown(text)}"
            )

    def _of_model(self, text: _Text) -> Any:
        """A matcher that has read this text alone."""
        model = self._unused.fork()
        for one in text.accepted:
            accepted = model.accept_bytes(one) if isinstance(one, bytes) else model.accept(one)
            assert accepted, f"{one!r} is refused in a text that was accepted, {self._shown(text)}"
        return model

    def _shown(self, text: _Text) -> str:
        pieces = [
            one if isinstance(one, bytes) else self._tokenizer.token_bytes[one] for one in text.accepted
        ]
        return f"after {len(pieces)} accepts that end with {b''.join(pieces)[-40:]!r}"


def views_along(grammar: Any, tokenizer: Tokenizer, tokens: Sequence[int]) -> list[View]:
    """What a new matcher of `grammar` shows before and after each of `tokens`."""
    vocabulary = Vocabulary(len(tokenizer), tuple(tokenizer.eos_token_ids), tokenizer)
    found = matcher_of(grammar, vocabulary)
    matcher = found.fork() if found is grammar else found
    views = [view_of(matcher, len(tokenizer))]
    for token in tokens:
        matcher.accept(token)
        views.append(view_of(matcher, len(tokenizer)))
    return views
