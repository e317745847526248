"""The text of a request, and `BannedText`, that of one with bans, which is taken back where one comes."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..base.calling import call_for_add, call_plugin
from ..contract import TextMatcher, Vocabulary
from ..params import SamplingParams
from ..tokenizer import Tokenizer
from .called_criteria import name_of
from .detokenizer import Detokenizer, MatchedEnds, advanced, held_by
from .history import History
from .stop_checks import StopChecks

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("engine_sampler")

MAX_REWINDS = 1 << 12
"""The most rewinds of one request: each costs its engine a step."""

MAX_WITHHELD = 1 << 12
"""The most bytes withheld because a ban may still come: older ones are streamed, and stay."""

LEAST_REWINDS = 20
"""The most rewinds in a row, if there are few bans; else twice the number of bans."""


class Rewind(NamedTuple):
    """The last time that a request went back to a token.

    position   the number of that token in the output.
    draws      how many rewinds there had been, this one included: what comes after it is drawn with numbers
               of its own.
    since      how many there had been when a token stayed for the last time.
    certain    how many tokens stay.
    token_ids  those that may not be drawn there; () where nothing else could be.
    """

    position: int
    draws: int
    since: int
    certain: int
    token_ids: tuple[int, ...]


class CompleteBan(NamedTuple):
    """A ban that the newest token has completed: the number of the token to go back to, how many bytes of the
    newest one follow the match, and what was found."""

    position: int
    after: int
    reason: object


class BannedText(Detokenizer):
    """A `Detokenizer` that finds bans, and withholds the text of tokens that may still be taken back.

    certain  how many tokens stay whatever comes: those before the token in which the earliest possible match
             begins. It never falls, since their text is streamed.
    rewinds  where the request has gone back to, in ascending order. What it has gone back over, and what it
             goes on from, is part of its state: `rollback` forgets later ones.
    passed   why bans have let text stay; None if they have not.

    A match goes back to the token in which it begins, or to the first token that is not certain.
    """

    __slots__ = (
        "_certain",
        "_complete",
        "_ends",
        "_is_closed",
        "_matchers",
        "_most",
        "_read",
        "passed",
        "rewinds",
    )

    def __init__(
        self,
        tokenizer: Tokenizer,
        skip_special_tokens: bool,
        matchers: Sequence[TextMatcher],
        bans: Sequence[TextMatcher],
        count: int,
    ) -> None:
        """bans  what finds them, `count` strings and patterns in all."""
        super().__init__(tokenizer, skip_special_tokens, matchers)
        self._matchers = tuple(bans)
        self._most = max(LEAST_REWINDS, 2 * count)
        self._read: list[tuple[Hashable, ...]] = [tuple(matcher.start for matcher in bans)]
        """The states of the bans after so many tokens."""
        self._ends = [0]
        """How many bytes so many tokens have."""
        self._certain = [0]
        """`certain` after so many tokens."""
        self._complete: CompleteBan | None = None
        self._is_closed = False
        self.rewinds: tuple[Rewind, ...] = ()
        self.passed: str | None = None

    @property
    def certain(self) -> int:
        return len(self._ends) - 1 if self._is_closed else self._certain[-1]

    @property
    def draws(self) -> int:
        """How many rewinds have led to the tokens so far."""
        return self.rewinds[-1].draws if self.rewinds else 0

    @property
    def banned(self) -> tuple[int, ...]:
        """The tokens that may not come next."""
        return self.rewinds[-1].token_ids if self._is_back else ()

    @property
    def _is_back(self) -> bool:
        """Whether the next token is one that has been taken back."""
        return bool(self.rewinds) and self.rewinds[-1].position == len(self._ends) - 1

    def told(self) -> list[str]:
        return self.deltas.copy() if self._is_closed else self.deltas[: self.certain]

    def push(self, token_id: int) -> MatchedEnds:
        healed = self.state.healed
        ends = super().push(token_id)
        self._look(self._transducer.bytes_of(token_id)[healed:])
        return ends

    def take(self, step: int | None = None) -> str:
        if step is None or step != self._step:
            self._sent, self._step = self._taken, step
        self._taken = len(self.deltas) if self._is_closed else max(self._sent, self.certain)
        return "".join(self.deltas[self._sent : self._taken])

    def close(self, cut: int = 0) -> None:
        super().close(cut)
        self._is_closed = True

    def overlook(self) -> None:
        """The newest token was chosen elsewhere: it stays."""
        self._complete = None

    def rewind_for(self, cut: int, token_ids: np.ndarray) -> tuple[Rewind, ...] | None:
        """What `rewinds` will be if the newest token must be taken back; None if it stays.

        cut        how many bytes of its end are cut off, so that a ban in them does no harm.
        token_ids  the output, int64 [length].
        """
        ban, self._complete = self._complete, None
        if ban is None or cut > ban.after:
            return None
        last = self.rewinds[-1] if self.rewinds else Rewind(-1, 0, 0, -1, ())
        certain, token_id = self._certain[-2], int(token_ids[ban.position])
        since = last.since if last.certain == certain else last.draws
        there = next((r for r in self.rewinds if r.position == ban.position), None)
        if there is not None and (not there.token_ids or token_id in there.token_ids):
            self._let_pass(f"{ban.reason!r} stays in the text: nothing else can come there")
        elif last.draws - since >= self._most or last.draws >= MAX_REWINDS:
            self._let_pass(f"{ban.reason!r} stays in the text after {last.draws - since} rewinds in a row")
        else:
            self._certain[-1] = certain
            banned = (*(() if there is None else there.token_ids), token_id)
            kept = (r for r in self.rewinds if r.position < ban.position)
            return (*kept, Rewind(ban.position, last.draws + 1, since, certain, banned))
        return None

    def go_on_from(self, rewinds: Sequence[Rewind]) -> None:
        """Have these `rewinds`, the last of which has led to the token that comes next."""
        self.rewinds = tuple(rewinds)
        self._certain[-1] = max(self._certain[-1], self.rewinds[-1].certain)

    def resume(self, rewinds: Sequence[Rewind]) -> None:
        """Have these `rewinds`, which have led to the tokens so far; there have been none."""
        self.rewinds, certain, left = tuple(rewinds), 0, deque(rewinds)
        for count, without in enumerate(self._certain):
            if left and left[0].position == count:
                certain = left.popleft().certain
            self._certain[count] = max(without, certain)

    def give_way(self) -> bool:
        """Whether tokens are banned now that are the only ones left: then they are not banned any more."""
        if not self.banned:
            return False
        self._let_pass("a banned text may stay: its tokens are the only ones left")
        self.rewinds = (*self.rewinds[:-1], self.rewinds[-1]._replace(token_ids=()))
        return True

    def rollback(self, length: int) -> None:
        super().rollback(length)
        for after_tokens in (self._read, self._ends, self._certain):
            del after_tokens[length + 1 :]
        self._complete, self._is_closed = None, False
        self.rewinds = tuple(r for r in self.rewinds if r.position <= length)

    def fork(self) -> Self:
        child = super().fork()
        child._matchers, child._most = self._matchers, self._most
        child._read, child._ends, child._certain = self._read.copy(), self._ends.copy(), self._certain.copy()
        child._complete, child._is_closed = self._complete, self._is_closed
        child.rewinds, child.passed = self.rewinds, self.passed
        return child

    def _look(self, data: bytes) -> None:
        """Let the bans read the newest token."""
        start, held, states, first = self._ends[-1], 0, [], None
        for matcher, state in zip(self._matchers, self._read[-1], strict=True):
            new, match = call_plugin(name_of(matcher), advanced, matcher, state, data)
            held = max(held, call_plugin(name_of(matcher), held_by, matcher, new, start + len(data)))
            states.append(new)
            if match is not None and (first is None or match.end < first.end):
                first = match
        end, certain = start + len(data), self._certain[-1]
        self._read.append(tuple(states))
        self._ends.append(end)
        self._certain.append(max(certain, self._token_at(end - min(held, MAX_WITHHELD))))
        self._complete = None
        if first is not None:
            begin = min(start + first.text_end, end - 1)  # an end may cut nothing; a ban has a byte at least
            position = max(certain, self._token_at(begin))
            self._complete = CompleteBan(position, len(data) - first.end, first.reason)

    def _token_at(self, offset: int) -> int:
        """The number of the token that has the byte at `offset`."""
        return bisect_right(self._ends, offset) - 1

    def _let_pass(self, why: str) -> None:
        if self.passed is None:
            logger.warning("%s", why)
            self.passed = why


def text_of(
    params: SamplingParams,
    vocabulary: Vocabulary,
    history: History,
    stop_checks: StopChecks,
    healed: int | None,
) -> Detokenizer | None:
    """The text of a request, None without a tokenizer. It goes on after the prompt and the `healed` token,
    with whose bytes the first token of the output begins."""
    tokenizer = vocabulary.tokenizer
    if tokenizer is None:
        return None
    given = tokenizer, params.skip_special_tokens, stop_checks.text_matchers
    text: Detokenizer
    if stop_checks.bans:
        text = call_for_add("the text", BannedText, *given, stop_checks.bans, stop_checks.ban_count)
    else:
        text = call_for_add("the text", Detokenizer, *given)
    prompt = [*history.prompt_token_ids[-3:].tolist(), *([] if healed is None else [healed])]
    known = 0 if healed is None else len(tokenizer.text_bytes(healed))
    call_for_add("the text", text.begin, prompt, known)
    return text
