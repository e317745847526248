"""The request slots of vLLM's V2 model runner, and the rows of logits that belong to them in a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._tensors import dtype_name, like, to_numpy
from .requests import Followed, Requests


@dataclass(eq=False)
class _Turn:
    """The rows of one request in a step.

    length  tokens of its history that are certain; the first row draws behind them.
    rows    its rows of the logits, in order.
    drafts  the guess in front of every row but the first.
    """

    slot: int
    followed: Followed
    length: int
    rows: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    guessed: int = 0
    """How many tokens of the vocabulary among the drafts its history has for the moment."""


class Slots:
    """Who has which slot, and what the model runner's buffers say about them.

    state  a `LogitsProcRequestState`: `all_token_ids.gpu` int32 [slots, max_len] holds the certain tokens,
           `prompt_len.np` and `prefill_len.np` int32 [slots] are on the host.
    """

    def __init__(self, requests: Requests, state: Any) -> None:
        self._requests = requests
        self._state = state
        self._followed: dict[int, Followed] = {}

    def add(self, slot: int, params: Any) -> bool:
        """A request takes `slot`, whoever had it; whether it asks for our samplers."""
        self._requests.close(self._followed.pop(slot, None))
        followed = self._requests.open(params)
        if followed is not None:
            self._followed[slot] = followed
        return followed is not None

    def apply(self, logits: Any, context: Any) -> Any:
        """Edit the rows of `logits` [rows, width] whose requests asked for it, in place.

        context  a `LogitsContext`. Without a request of ours in it nothing is read from the device.
        """
        if self._followed.keys().isdisjoint(context.idx_mapping_np.tolist()):
            return logits
        turns = self._turns(context)
        if turns:
            self._catch_up(turns, int(logits.shape[1]))
            turns = [turn for turn in turns if turn.followed.begun]
        rows = [row for turn in turns for row in turn.rows]
        if rows:
            values = to_numpy(logits[rows])
            self._process(values, turns)
            logits[rows] = like(logits, values, dtype_name(logits))
        return logits

    def _turns(self, context: Any) -> list[_Turn]:
        """The requests of ours in a step.

        A row draws behind its input token, whose place is `pos`: its history has pos + 1 tokens. The first
        row of a request has certain tokens only; the input of each further row is the draft in front of it.
        Left out are rows whose draw vLLM throws away: those within the prompt, when it comes in chunks, and
        those behind placeholders, before the first token is drawn.
        """
        slots, offsets, inputs, places = (
            to_numpy(tensor).tolist()
            for tensor in (
                context.expanded_idx_mapping, context.expanded_local_pos, context.input_ids, context.pos
            )
        )  # fmt: skip
        turns: dict[int, _Turn] = {}
        for row, (slot, offset, token, place) in enumerate(zip(slots, offsets, inputs, places, strict=True)):
            followed = self._followed.get(slot)
            if followed is None or followed.refused:
                continue
            first = place - offset
            prefilled = int(self._state.prefill_len.np[slot])
            if offset == 0 and first + 1 >= prefilled:
                turns[slot] = _Turn(slot, followed, first + 1, [row])
            elif offset > 0 and first >= prefilled:
                turns[slot].rows.append(row)
                turns[slot].drafts.append(token)
        return list(turns.values())

    def _catch_up(self, turns: list[_Turn], width: int) -> None:
        """Bring requests up to their certain tokens, which are fetched together."""
        for turn in turns:
            if turn.length < turn.followed.taken:  # vLLM goes back, to compute a part again
                self._requests.close(turn.followed)
        for turn, tokens in zip(turns, self._fetch(turns), strict=True):
            followed = turn.followed
            if not followed.begun:
                prompt = int(self._state.prompt_len.np[turn.slot])
                self._requests.begin(followed, tokens[:prompt], tokens[prompt:], width)
            else:
                self._requests.extend(followed, tokens)
            followed.taken = turn.length

    def _fetch(self, turns: list[_Turn]) -> Iterator[list[int]]:
        """The certain tokens of each request that we do not have yet, in one copy from the device."""
        starts = [turn.followed.taken for turn in turns]
        counts = [turn.length - start for turn, start in zip(turns, starts, strict=True)]
        where = np.repeat([turn.slot for turn in turns], counts)
        columns = [np.arange(start, turn.length) for turn, start in zip(turns, starts, strict=True)]
        tokens = to_numpy(self._state.all_token_ids.gpu[where, np.concatenate(columns)])
        return (part.tolist() for part in np.split(tokens, np.cumsum(counts)[:-1]))

    def _process(self, values: np.ndarray, turns: list[_Turn]) -> None:
        """Process `values` [rows, width], the rows of `turns` one after another, in place: first rows
        together, then those behind one draft, and so on. The drafts are taken back in the end."""
        places = np.cumsum([0, *(len(turn.rows) for turn in turns)])[:-1]
        active = list(zip(turns, places.tolist(), strict=True))
        for depth in range(max(len(turn.rows) for turn in turns)):
            active = [(turn, place) for turn, place in active if self._guess(turn, depth)]
            which = [place + depth for _, place in active]
            if which:
                values[which] = self._requests.process(values[which], [turn.followed for turn, _ in active])
        for turn in turns:
            self._requests.retract(turn.followed, turn.guessed)

    def _guess(self, turn: _Turn, depth: int) -> bool:
        """Add the draft in front of row `depth`; whether there is such a row, behind a token."""
        if depth == 0:
            return True
        if depth >= len(turn.rows) or not self._requests.extend(turn.followed, [turn.drafts[depth - 1]]):
            return False
        turn.guessed += 1
        return True
