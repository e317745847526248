"""What rows need before their chains run: grammar masks, and the work of samplers that prepare."""

from __future__ import annotations

import functools
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ..base.calling import call_plugin
from ..base.errors import INTERRUPTIONS, PluginFault
from ..contract import Backend, PreparedMasks, UnfinishedError, Work, bitmask_words, fill_tree_bitmask
from ..contract.work import call_within
from ..registry import mask_filler
from ..requests.budget import MOST_TURNS, Budget, Share
from ..requests.constraint import Constraint
from ..requests.drafted import Draft
from ..requests.request import Preparing, Request
from ..requests.slots import Slots
from ..tokenizer import Tokenizer
from .input_batch import InputBatch

_GLANCE = 64
"""The steps of work that a mask may take which may not be needed; one that is known takes none."""

logger = logging.getLogger("engine_sampler")


class GrammarMasks:
    """One mask for each request of the last batch, int32 [requests, ceil(vocab / 32)].

    budget  how much work grammars and samplers may do, and who is postponed for want of it.
    """

    def __init__(self, slots: Slots, budget: Budget) -> None:
        self.budget = budget
        self._slots = slots
        self._words = bitmask_words(slots.vocabulary.size)
        self._bitmask = np.zeros((0, self._words), np.int32)
        self._by_row = self._room = self._bitmask
        self._filled_for: weakref.ref[InputBatch] | None = None
        """Whose masks were filled last."""
        self._seconds = 0.0
        self._prepared: PreparedMasks | None = None
        self._changed: set[int] = set()
        """The rows that have been filled since the backend prepared them."""

    @functools.cached_property
    def _fill_masks(self) -> Callable[..., dict[int, BaseException]]:
        """In the first step that needs it: the constraints may be matchers of the engine's own."""
        return mask_filler(self._slots.vocabulary.grammar_engine)

    def prepare(self, backend: Backend, device: str, indices: Sequence[int]) -> None:
        """Let `backend` take over the masks in the rows `indices` for a step on `device`."""
        if self._prepared is not None and not self._changed:
            return
        self._changed, self._prepared = set(), None
        try:
            handle = call_plugin(
                f"backend {backend.name}", backend.prepare_masks, self._bitmask, indices, device
            )
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            logger.error("masks are not prepared: %s", error)
        else:
            self._prepared = None if handle is None else PreparedMasks(handle, self._changed)

    def take_prepared(self) -> PreparedMasks | None:
        """The backend's handle for the masks of this step, which is valid for one step."""
        prepared, self._prepared = self._prepared, None
        return prepared

    def take_seconds(self) -> float:
        """The time that `fill` has taken since this was asked last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def by_row(self, rows: int) -> np.ndarray:
        """An array for the masks of a step with more rows than requests, int32 [rows, words]: the same one
        while the number of rows is the same. Its memory is used again: new one costs more than masks."""
        if len(self._by_row) != rows:
            if len(self._room) < rows:
                self._room = np.zeros((max(rows, 2 * len(self._room)), self._words), np.int32)
            self._by_row = self._room[:rows]
        return self._by_row

    def fill_for(self, inputs: InputBatch) -> np.ndarray:
        """`fill` for the requests of a step."""
        go_on = self._filled_for is not None and self._filled_for() is inputs
        if not go_on:
            self._filled_for = None
        masks = self.fill(inputs.requests, inputs.masked, inputs.preparing, go_on=go_on)
        for i in inputs.narrowed:
            self._narrow(masks[i], inputs.requests[i])
        if not go_on:
            self._filled_for = weakref.ref(inputs)
        return masks

    def fill(
        self,
        requests: list[Request],
        masked: Sequence[int],
        preparing: Mapping[int, Preparing] | None = None,
        *,
        go_on: bool = False,
    ) -> np.ndarray:
        """The masks of requests[i] for each i of `masked`, in row i; other rows are not set. For each i of
        `preparing`, the samplers of requests[i] prepare.

        go_on  whether the requests are those of the last call, so that its masks may still hold.

        A mask that is filled already and still holds is left as it is. A grammar or a sampler that fails ends
        its request; one that needs more than the budget has left postpones it: its row is all 0, and the next
        call continues. The array is reused by the next call.
        """
        started = time.perf_counter()
        preparing = preparing or {}
        if masked and not go_on:
            self._begin(requests)
        for i in preparing:
            requests[i].share.postponed = False
        missing = []
        for i in masked:
            requests[i].share.postponed = False
            if _lacks_mask(requests[i]):
                missing.append(i)
        if missing or preparing:
            self._changed.update(missing)
            self._ready(requests, missing, preparing)
        self._seconds += time.perf_counter() - started
        return self._bitmask

    def fill_ahead(
        self,
        requests: Sequence[Request],
        drafts: Mapping[int, Draft],
        first_rows: np.ndarray,
        bitmask: np.ndarray,
    ) -> list[int]:
        """Fill the rows of `bitmask` (int32 [rows, words]) that follow the first row of requests[i], for each
        i of `drafts`: row 1 + j has the mask after guess number j. Copies of the grammars read these.

        Returns the rows whose masks are not known, since finding them fails or takes too much work. There
        everything is allowed, and so in rows behind a token that is not.
        """
        started = time.perf_counter()
        grammars = {i: _grammar(requests[i]) for i in drafts}
        work = self.budget.parts(sum(grammar.bounded for grammar in grammars.values()))
        unknown: list[int] = []
        for i, draft in drafts.items():
            first, end = int(first_rows[i]), int(first_rows[i]) + 1 + len(draft)
            root = bitmask[first].copy()
            tree = draft.token_ids, draft.parents, bitmask[first:end], 0
            try:
                is_admitted = fill_tree_bitmask(
                    grammars[i].matcher, *tree, work if grammars[i].bounded else None
                )
                bitmask[first + 1 : end][~is_admitted] = -1
            except INTERRUPTIONS:
                raise
            except BaseException:  # the request learns of it if its turn comes
                bitmask[first], bitmask[first + 1 : end] = root, -1
                unknown += range(first + 1, end)
        self._seconds += time.perf_counter() - started
        return unknown

    def glance(
        self,
        requests: Sequence[Request],
        drafts: Mapping[int, Draft],
        first_rows: np.ndarray,
        bitmask: np.ndarray,
    ) -> np.ndarray:
        """What `fill_ahead` does, right after `fill` and by the engine in C alone: as far as next to no work
        is needed, so that rows which nothing leads to cost next to nothing. Returns bool [rows], those that
        are filled."""
        started = time.perf_counter()
        is_known = np.zeros(len(bitmask), bool)
        for i, draft in drafts.items():
            look = getattr(_grammar(requests[i]).matcher, "glance_at_tree", None)
            if look is None:
                continue
            first, work = int(first_rows[i]), Work(_GLANCE, 2 * _GLANCE * (1 + len(draft)))
            rows = slice(first, first + 1 + len(draft))
            try:
                is_known[rows] = look(draft.token_ids, draft.parents, bitmask, first, work)
            except INTERRUPTIONS:
                raise
            except BaseException as fault:  # rows are filled one after the other, then
                logger.debug("no masks of drafts: %s", fault)
            if not is_known[first]:
                bitmask[first] = self._bitmask[i]
        self._seconds += time.perf_counter() - started
        return is_known

    def can_fill(self, requests: Sequence[Request], share: Share) -> bool:
        """Whether one turn of `share` suffices to find the masks of all `requests` and to prepare their
        samplers. What fails is found again, and reported, where it is needed."""
        work = self.budget.turn(share)
        for request in requests:
            try:
                if request.grammar is not None:
                    call_within(work, "the grammar", request.grammar.mask)
                _prepare(request.preparing(self._slots), work)
            except UnfinishedError:
                if share.turns < MOST_TURNS:
                    return False
            except PluginFault:
                continue
        return True

    def mask_of(self, request: Request) -> np.ndarray:
        """The mask of one request, int32 [words]. Raises UnfinishedError if it needs more than the budget has
        left."""
        if request.grammar is None:
            mask = np.empty(self._words, np.int32)
        else:
            mask = request.grammar.mask(self.budget.turn(request.share))
            request.share.turns = 0
        if request.has_bans or request.healed is not None:
            self._narrow(mask, request)
        return mask

    def prepare_samplers(self, request: Request) -> None:
        """Let the samplers of one request prepare. Raises `PluginFault`, and UnfinishedError if they need
        more than the budget has left."""
        if request.chain.preparing:
            _prepare(request.preparing(self._slots), self.budget.turn(request.share))

    def _narrow(self, mask: np.ndarray, request: Request) -> None:
        """Remove from the mask of a request, which is set here if it has no grammar, what it may not draw
        again, and what does not heal its prompt."""
        if request.grammar is None:
            mask.fill(-1)
        for token_id in () if request.bans is None else request.bans.banned:
            mask.view(np.uint32)[token_id >> 5] &= ~np.uint32(1 << (token_id & 31))
        if request.heals:
            tokenizer = self._slots.vocabulary.need_tokenizer("token_healing")
            mask &= _beginning_like(tokenizer, request.healed, self._words)

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self, requests: list[Request]) -> None:
        """Begin with other requests, whose masks are unknown."""
        self._prepared = None
        self._bitmask = np.zeros((len(requests), self._words), np.int32)
        for request in requests:
            if request.grammar is not None:
                request.grammar.mask_ready = False

    def _ready(self, requests: list[Request], missing: list[int], preparing: Mapping[int, Preparing]) -> None:
        """Fill the masks `missing`, and let samplers prepare: each with an equal part of the work, then those
        that are unfinished, in turn."""
        grammars = [_grammar(requests[i]) for i in missing]
        work = self.budget.parts(sum([grammar.bounded for grammar in grammars]) + len(preparing))
        faulty = self._fill_rows(requests, missing, grammars, work)
        for i in preparing:
            self._prepare(requests[i], preparing[i], work)
        unfinished = {i for i in (*faulty, *preparing) if requests[i].share.postponed}
        for i in self.budget.turns(unfinished, requests):
            if _lacks_mask(requests[i]):
                self._fill_rows(requests, [i], [_grammar(requests[i])], work)
            if i in preparing:
                self._prepare(requests[i], preparing[i], work)

    def _fill_rows(
        self, requests: list[Request], indices: list[int], grammars: list[Constraint], work: Work | None
    ) -> Iterable[int]:
        """Fill the masks of the requests at `indices`; returns which of them are not filled."""
        faults = self._fill_masks([grammar.matcher for grammar in grammars], self._bitmask, indices, work)
        for grammar in grammars:
            grammar.mask_ready = True
        for i, fault in faults.items():
            grammar = _grammar(requests[i])
            grammar.mask_ready = False
            requests[i].leave_off("the grammar", fault, work is not None and grammar.bounded)
        return faults

    def _prepare(self, request: Request, preparing: Preparing, work: Work | None) -> None:
        """Let the samplers of a request prepare, unless it has no token to come in this step."""
        if request.sits_out:
            return
        try:
            _prepare(preparing, work)
        except (PluginFault, UnfinishedError) as fault:
            request.leave_off("a sampler", fault)
        else:
            if request.grammar is None:
                request.share.turns = 0


def _prepare(preparing: Preparing, work: Work | None) -> None:
    """Call `Sampler.prepare`. Raises `PluginFault`, and UnfinishedError if that takes more than `work`."""
    for sampler, rows in preparing:
        call_within(work, sampler.name, sampler.prepare, rows)


@functools.lru_cache(maxsize=64)
def _beginning_like(tokenizer: Tokenizer, token_id: int, words: int) -> np.ndarray:
    """The mask of the tokens whose text begins with that of one, int32 [words]."""
    mask, text = np.zeros(words * 32, bool), tokenizer.text_bytes(token_id)
    for other, data in enumerate(tokenizer.token_bytes[: words * 32]):
        mask[other] = data.startswith(text)
    mask[[i for i in tokenizer.special_token_ids if i < len(mask)]] = False
    return np.packbits(mask, bitorder="little").view(np.int32)


def _grammar(request: Request) -> Constraint:
    assert request.grammar is not None
    return request.grammar


def _lacks_mask(request: Request) -> bool:
    """Whether the next token of a request needs a mask that is not filled."""
    grammar = request.grammar
    return grammar is not None and not grammar.mask_ready and not request.backlog
