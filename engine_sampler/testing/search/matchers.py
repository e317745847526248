"""Texts that come and go in random order, each beside a matcher that reads the same text alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...tokenizer import Tokenizer
from .drawing import draw_depth
from .machine import RandomMachine
from .surroundings import anywhere
from .texts import View, view_of

LENGTH = 50
"""The events of one sequence."""

BEGINNING = 48
"""How many tokens the first text has before anything happens to it, if it can have them."""

VERY_LONG, _SECONDS = 1100, 0.2
_MOST_LIVE = 4
_LOOKED_AT = 4


@dataclass
class _Text:
    """One text: its matcher, and what has been accepted, a token or bytes each."""

    matcher: Any
    accepted: list[int | bytes] = field(default_factory=list)


class TextMachine(RandomMachine):
    """Texts under one grammar, and what happens to them.

    new     gives a matcher at the beginning of a text.
    number  of the sequence; every tenth one begins with a text of up to a thousand tokens.
    """

    events = (
        "accept",
        "accept_many",
        "accept_bytes",
        "refuse",
        "rollback",
        "rollback",
        "fork",
        "join",
        "leave",
    )

    def __init__(self, new: Callable[[], Any], tokenizer: Tokenizer, number: int) -> None:
        super().__init__()
        self._new, self._tokenizer, self._very_long = new, tokenizer, number % 10 == 0
        self._unused = new()
        self._texts = [_Text(new())]
        self._silent = {*tokenizer.special_token_ids, *tokenizer.eos_token_ids}

    def call(self, work: Callable[[], None]) -> None:
        anywhere(self.random, work)

    def begin(self) -> None:
        self._long = self.random.random() < 0.6
        if self._very_long:
            self._read_on(self._texts[0])
        for _ in range(BEGINNING):
            self._accept(self._texts[0])

    def accept(self, count: int = 1) -> None:
        text = self._any()
        for _ in range(count):
            self._accept(text)
        self._compare(text)

    def accept_many(self) -> None:
        self.accept(int(self.random.integers(2, 20)))

    def accept_bytes(self) -> None:
        text = self._any()
        allowed = [token for token in self._view(text.matcher).tokens if token not in self._silent]
        if allowed and not text.matcher.is_terminated():
            piece = self._tokenizer.token_bytes[int(self.random.choice(allowed))]
            data = piece[: int(self.random.integers(1, len(piece) + 1))] if piece else b""
            if data and text.matcher.accept_bytes(data):
                text.accepted.append(data)
        self._compare(text)

    def refuse(self) -> None:
        """Offer tokens that may not follow, and ask questions, all of which change nothing."""
        text = self._any()
        allowed = set(self._view(text.matcher).tokens)
        for token in self.random.integers(0, len(self._tokenizer), 4).tolist():
            if token not in allowed:
                assert not text.matcher.accept(token), f"token {token}, which is masked, is accepted"
        text.matcher.validate(self.random.integers(0, len(self._tokenizer), 3).tolist())
        self._compare(text)

    def rollback(self) -> None:
        text = self._any()
        self._roll(text, draw_depth(self.random, len(text.accepted)))
        self._compare(*self._texts)

    def fork(self) -> None:
        if len(self._texts) < _MOST_LIVE:
            text = self._any()
            self._texts.append(_Text(text.matcher.fork(), text.accepted.copy()))
        self._compare(*self._texts)

    def join(self) -> None:
        if len(self._texts) < _MOST_LIVE:
            self._texts.append(_Text(self._new()))

    def leave(self) -> None:
        if len(self._texts) > 1:
            text = self._any()
            self._texts = [one for one in self._texts if one is not text]
        self._compare(*self._texts)

    # --- helpers ---------------------------------------------------------------------------------

    def _any(self) -> _Text:
        return self._texts[int(self.random.integers(len(self._texts)))]

    def _accept(self, text: _Text) -> None:
        """Accept one of the tokens that may follow, mostly one after which many may; in a long run, take back
        what leads to the end of a text."""
        allowed = self._view(text.matcher).tokens
        if not allowed or text.matcher.is_terminated():
            if self._long:
                self._roll(text, min(3, len(text.accepted)))
            return
        some = dict.fromkeys(self.random.choice(allowed, _LOOKED_AT).tolist())
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
            elif text.matcher.accept(token := int(self.random.choice(allowed))):
                text.accepted.append(token)

    def _roll(self, text: _Text, n: int) -> None:
        text.matcher.rollback(n)
        kept = len(text.accepted) - n
        undone = [one for one in text.accepted[kept:] if isinstance(one, int)]
        if len(undone) == n:
            count = text.matcher.validate(undone)
            assert count == n, f"validate counts {count} of {n} tokens that have been accepted before"
        del text.accepted[kept:]

    def _view(self, matcher: Any) -> View:
        rows = int(self.random.integers(1, 9))
        row, more_words = int(self.random.integers(rows)), int(self.random.integers(3))
        return view_of(matcher, len(self._tokenizer), rows, row, more_words)

    def _breadth(self, matcher: Any, token: int) -> float:
        """How many tokens may follow `token`; in a short run at times any number, so that texts end."""
        trial = matcher.fork()
        if not trial.accept(token) or (not self._long and self.random.random() < 0.2):
            return self.random.random() * len(self._tokenizer)
        return len(view_of(trial, len(self._tokenizer)).tokens) + self.random.random()

    def _compare(self, *texts: _Text) -> None:
        """Raise AssertionError unless these matchers are like ones that have read their texts alone."""
        for text in texts:
            model = self._of_model(text)
            if hasattr(text.matcher, "forced_tokens") and self.random.random() < 0.3:
                forced, trial = text.matcher.forced_tokens() or [], model.fork()
                refused = next((token for token in forced if not trial.accept(token)), None)
                assert refused is None, f"forced_tokens gives {forced}, but {refused} may not follow"
            found, right = self._view(text.matcher), view_of(model, len(self._tokenizer))
            if found != right:
                other = sorted(set(found.tokens) ^ set(right.tokens))
                differs = f"the mask at tokens {other[:5]}" if other else f"{found[1:]} and {right[1:]}"
                raise AssertionError(
                    f"a matcher differs from one that has read its text alone, {differs}, after "
                    f"{self.recent()}, {self._shown(text)}"
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
