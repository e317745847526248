"""The request slots of vLLM's V2 model runner, and their rows of logits in a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine_sampler.for_bridges import dtype_name, like, to_numpy, tokens_in_slots, unmoved

from .requests import FollowedRequest, Requests


@dataclass(eq=False)
class _SlotRows:
    """The rows of one request in a step.

    length  number of confirmed tokens in its history; the first row draws the token after them.
    rows    its rows of the logits, in order.
    drafts  the draft token that precedes each row but the first.
    """

    slot: int
    followed: FollowedRequest
    length: int
    rows: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    applied_drafts: int = 0
    """How many drafts in the vocabulary its history currently has."""


class RequestSlots:
    """The request in each slot, with the model runner's buffers.

    state  a `LogitsProcRequestState`: `all_token_ids.gpu` int32 [slots, max_len] holds the confirmed tokens,
           `prompt_len.np` and `prefill_len.np` int32 [slots] are on the host.
    """

    def __init__(self, requests: Requests, state: Any) -> None:
        self._requests = requests
        self._state = state
        self._followed: dict[int, FollowedRequest] = {}

    def add(self, slot: int, params: Any) -> bool:
        """Assign `slot` to a request, replacing any other; returns whether it enables our samplers."""
        self._requests.close(self._followed.pop(slot, None))
        followed = self._requests.open(params)
        if followed is not None:
            self._followed[slot] = followed
        return followed is not None

    def apply(self, logits: Any, context: Any) -> Any:
        """Process in place the rows of `logits` [rows, width] whose requests enable our samplers.

        context  a `LogitsContext`. If it has none of these requests, nothing is read from the device.
        """
        if self._followed.keys().isdisjoint(context.idx_mapping_np.tolist()):
            return logits
        groups = self._slot_rows(context)
        if groups:
            self._catch_up(groups, int(logits.shape[1]))
            groups = [group for group in groups if group.followed.started]
        rows = [row for group in groups for row in group.rows]
        if rows:
            values = unmoved(logits[rows])
            self._process(values, groups)
            logits[rows] = like(logits, values, dtype_name(logits))
        return logits

    def _slot_rows(self, context: Any) -> list[_SlotRows]:
        """The followed requests in a step, with their rows.

        A row draws the token after its input token, which is at position `pos`: its history has pos + 1
        tokens. The first row of a request has only confirmed tokens; the input of each further row is the
        preceding draft. Rows whose draw vLLM discards are left out: those within a prompt that is processed
        in chunks, and those after placeholders, before the first token is drawn.
        """
        slots, offsets, inputs, positions = (
            to_numpy(tensor).tolist()
            for tensor in (
                context.expanded_idx_mapping, context.expanded_local_pos, context.input_ids, context.pos
            )
        )  # fmt: skip
        groups: dict[int, _SlotRows] = {}
        for row, (slot, offset, token, position) in enumerate(
            zip(slots, offsets, inputs, positions, strict=True)
        ):
            followed = self._followed.get(slot)
            if followed is None or followed.refused:
                continue
            first = position - offset
            prefilled = int(self._state.prefill_len.np[slot])
            if offset == 0 and first + 1 >= prefilled:
                groups[slot] = _SlotRows(slot, followed, first + 1, [row])
            elif offset > 0 and first >= prefilled:
                groups[slot].rows.append(row)
                groups[slot].drafts.append(token)
        return list(groups.values())

    def _catch_up(self, groups: list[_SlotRows], width: int) -> None:
        """Bring requests up to their confirmed tokens, which are fetched together."""
        news = tokens_in_slots(
            self._state.all_token_ids.gpu,
            np.array([group.slot for group in groups]),
            [group.followed.token_count for group in groups],
            [group.length for group in groups],
            [int(self._state.prompt_len.np[group.slot]) for group in groups],
        )
        for group, (prompt, tokens) in zip(groups, news, strict=True):
            followed = group.followed
            if prompt is not None:
                self._requests.close(followed)  # vLLM may have gone back to recompute a part
                self._requests.start(followed, prompt, tokens, width)
            else:
                self._requests.extend(followed, tokens)
            followed.token_count = group.length

    def _process(self, values: Any, groups: list[_SlotRows]) -> None:
        """Process `values` [rows, width], the rows of `groups` one after another, in place: all first rows
        together, then those after one draft, and so on. The drafts are rolled back in the end."""
        starts = np.cumsum([0, *(len(group.rows) for group in groups)])[:-1]
        active = list(zip(groups, starts.tolist(), strict=True))
        for depth in range(max(len(group.rows) for group in groups)):
            active = [(group, start) for group, start in active if self._add_draft(group, depth)]
            rows = [start + depth for _, start in active]
            if rows:
                processed = self._requests.process(values[rows], [group.followed for group, _ in active])
                values[rows] = like(values, processed, dtype_name(values))
        for group in groups:
            self._requests.retract(group.followed, group.applied_drafts)

    def _add_draft(self, group: _SlotRows, depth: int) -> bool:
        """Add the draft that precedes row `depth`; returns whether there is such a row, after a token."""
        if depth == 0:
            return True
        if depth >= len(group.rows) or not self._requests.extend(group.followed, [group.drafts[depth - 1]]):
            return False
        group.applied_drafts += 1
        return True
