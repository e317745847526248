"""Drafts of live requests: what their drafters guess, cut to what their masks admit."""

from __future__ import annotations

import itertools
import logging
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import INTERRUPTIONS, failure
from ..contract import DraftedText, Drafter, Param, UnfinishedError, Vocabulary, Work
from ..contract.work import step_work
from ..registry import CORE_PARAMS, drafters_named
from ..requests.constraint import Constraint
from ..requests.parts import RequestPart
from ..requests.request import Request
from ..requests.results import RequestId
from .membership.live_requests import LiveRequests
from .membership.step_lock import StepLock

LONGEST = Param("max_tokens", int, 8, low=1, high=128)
"""The most tokens of a draft."""

LONGEST_ROOM = 1 << 31
"""Room for tokens where no length ends a request."""

READ_AT_ONCE = 4096
"""The most tokens of histories that drafters read in one call, about 3 ms: a long prompt has no drafts in its
first steps."""

logger = logging.getLogger("engine_sampler")

_FAILED: dict[int, Drafter] = {}
"""The drafters of which the log has said that they fail, by their addresses: not all can be hashed."""


class DraftStates(RequestPart):
    """The states of a request's drafters. Each follows the tokens when drafts are asked for, some at a time.

    A state is not in the table while its drafter changes it. So one whose change does not come to its end is
    made anew from the tokens.
    """

    __slots__ = ("_failed", "_prompt_length", "_states")

    def __init__(self, prompt_length: int) -> None:
        self._prompt_length = prompt_length
        self._states: dict[str, tuple[Drafter, Any, int]] = {}
        """Each drafter with its state, and how many tokens that has read."""
        self._failed: set[str] = set()
        """The names of those that are not asked again."""

    def guess(
        self, drafter: Drafter, text: DraftedText, params: Mapping[str, Any], most: int, count: int
    ) -> tuple[list[int], int]:
        """What a drafter makes of a text, `count` ids at most, and how many tokens its state has read for
        that, `most` at most; nothing if it fails, or has not read all of them yet."""
        if drafter.name in self._failed:
            return [], 0
        try:
            return self._guess(drafter, text, params, most, count)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._fail(drafter, error)
            return [], 0

    def rollback(self, length: int) -> None:
        length += self._prompt_length
        for name, (drafter, state, seen) in list(self._states.items()):
            if seen <= length:
                continue
            del self._states[name]
            try:
                drafter.rollback(state, seen - length)
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                self._fail(drafter, error)
            else:
                self._states[name] = drafter, state, length

    def rebuild(self, request: Request, length: int) -> None:
        self._states.clear()

    def fork(self) -> DraftStates:
        child = DraftStates(self._prompt_length)
        child._failed |= self._failed
        for name, (drafter, state, seen) in self._states.items():
            try:
                child._states[name] = drafter, drafter.fork(state), seen
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                child._fail(drafter, error)
        return child

    def _guess(
        self, drafter: Drafter, text: DraftedText, params: Mapping[str, Any], most: int, count: int
    ) -> tuple[list[int], int]:
        length = len(text.history)
        if drafter.name in self._states:
            _, state, seen = self._states.pop(drafter.name)
        else:
            state, seen = drafter.new_state(params, text.vocabulary), 0
        begin, ids = seen, []
        if state is None:
            begin = seen = length
        elif seen < length:
            seen = min(length, seen + most)
            drafter.accept(state, text.history[begin:seen].tolist())
        if seen == length:
            ids = self._asked(drafter, state, text, count)
        self._states[drafter.name] = drafter, state, seen
        return ids, seen - begin

    def _asked(self, drafter: Drafter, state: Any, text: DraftedText, count: int) -> list[int]:
        """What a drafter says whose state has read the history, and reads the draft for this."""
        ahead = () if state is None else text.draft
        if ahead:
            drafter.accept(state, list(ahead))
        try:
            ids = [
                operator.index(token_id)
                for token_id in itertools.islice(drafter.draft(state, text, count), count)
            ]
        except UnfinishedError:
            ids = []
        text.vocabulary.check_ids(f"the draft of {drafter.name}", ids)
        if ahead:
            drafter.rollback(state, len(ahead))
        return ids

    def _fail(self, drafter: Drafter, error: BaseException) -> None:
        self._failed.add(drafter.name)
        if id(drafter) not in _FAILED:
            _FAILED[id(drafter)] = drafter
            logger.error(
                "%s: requests go on without its drafts", failure(f"the drafter {drafter.name}", error)
            )


class _Drafting:
    """What gives drafts for the requests of a scheduler."""

    vocabulary: Vocabulary
    max_model_len: int | None
    _requests: LiveRequests
    _step_lock: StepLock

    def draft(
        self,
        request_ids: Sequence[RequestId] | None = None,
        max_tokens: int = 8,
        drafter: str | Sequence[str] | None = None,
    ) -> dict[RequestId, list[int]]:
        """Guesses at the next tokens of requests, default all live ones, for `step(draft_token_ids=…)`: 1 to
        `max_tokens` (at most 128) ids for each request that has any. No token depends on them.

        drafter  the name of a drafter, or several, for requests whose parameters name none. They are asked in
                 this order, and again after each addition.

        A draft is cut where a mask refuses a token, behind EOS, and one token before the request reaches its
        length. Beam searches have none, nor have requests that have left. A drafter that fails is logged
        once. Raises `RequestError` for unknown requests.
        """
        most = LONGEST.check(max_tokens)
        default = drafters_named(CORE_PARAMS["drafter"].check(drafter) or ())
        with self._step_lock:
            requests = list(self._to_draft(request_ids))
            calling = _Calling(self.vocabulary, self.max_model_len, len(requests))
            drafts = {r.id: calling.draft(r, _drafters_of(r, default), most) for r in requests}
        return {request_id: draft for request_id, draft in drafts.items() if draft}

    def _to_draft(self, request_ids: Sequence[RequestId] | None) -> Iterator[Request]:
        requests = self._requests
        for request_id in list(requests.live) if request_ids is None else request_ids:
            if request_ids is not None and requests.has_left(request_id):
                continue
            request = requests.find_live(request_id)
            if (
                request.live
                and request.slot >= 0
                and not request.backlog
                and request_id not in requests.groups
            ):
                yield request


def _drafters_of(request: Request, default: list[Drafter]) -> list[Drafter]:
    names = request.params["drafter"]
    return default if names is None else drafters_named(names)


class _Calling:
    """One call of `draft`, and what is left of what it may do."""

    def __init__(self, vocabulary: Vocabulary, max_model_len: int | None, requests: int) -> None:
        self._vocabulary, self._max_model_len = vocabulary, max_model_len
        steps = step_work(requests, vocabulary.size)
        self._work = Work(steps, steps)
        self._unread = READ_AT_ONCE

    def draft(self, request: Request, drafters: Sequence[Drafter], most: int) -> list[int]:
        """The draft of a request, of at most so many tokens."""
        room = min(most, self._room(request))
        if room <= 0 or not drafters:
            return []
        if forced := request.phases.left_to_force(len(request.history)):
            return list(forced[:room])
        draft: list[int] = []
        try:
            grammar = None if request.grammar is None else request.grammar.fork()
            while len(draft) < room and self._extend(draft, request, drafters, grammar, room):
                pass
        except INTERRUPTIONS:
            raise
        except BaseException:  # the step will tell of a grammar that fails
            logger.debug("a draft of request %r ends early", request.id, exc_info=True)
        return draft

    def _room(self, request: Request) -> int:
        """How many drafts are of use: the step gives one token more."""
        length, limit = request.history.output_length, request.params["max_tokens"]
        rooms = [] if limit is None else [limit - length]
        if self._max_model_len is not None:
            rooms.append(self._max_model_len - len(request.history))
        return min(rooms, default=LONGEST_ROOM) - 1

    def _extend(
        self,
        draft: list[int],
        request: Request,
        drafters: Sequence[Drafter],
        grammar: Constraint | None,
        room: int,
    ) -> bool:
        """Let the first drafter that can extend a draft; returns whether it may go on."""
        if not isinstance(request.drafting, DraftStates):
            request.drafting = DraftStates(request.history.prompt_length)
        history, matcher = request.history.token_ids.view(), None if grammar is None else grammar.forcing
        history.flags.writeable = False
        for drafter in drafters:
            text = DraftedText(history, tuple(draft), self._vocabulary, matcher, self._work)
            guessed, read = request.drafting.guess(
                drafter, text, request.params, self._unread, room - len(draft)
            )
            self._unread -= read
            before = len(draft)
            for token_id in guessed:
                if not self._admits(request, draft, token_id):
                    break
                if grammar is not None and not grammar.accept(token_id, self._work):
                    break
                draft.append(token_id)
                if token_id in self._vocabulary.eos_token_ids:
                    return False
            if len(draft) > before:
                return True
        return False

    def _admits(self, request: Request, draft: Sequence[int], token_id: int) -> bool:
        """Whether the masks of a request, but for its grammar, leave a token behind a draft."""
        params, resolved = request.params, request.state.resolved
        length = request.history.output_length + len(draft)
        if token_id in self._vocabulary.eos_token_ids and (
            params["ignore_eos"] or length < params["min_tokens"]
        ):
            return False
        allowed = resolved.get("allowed_token_ids")
        if allowed is not None and token_id not in allowed:
            return False
        bad = resolved.get("bad_words")
        if not bad:
            return True
        from ..samplers._sequences import values_after  # loaded with the samplers, which have resolved these

        longest, before = max(sequences.shape[1] for sequences, _ in bad), request.history.token_ids
        return token_id not in values_after(np.append(before[max(len(before) - longest, 0) :], draft), bad)
