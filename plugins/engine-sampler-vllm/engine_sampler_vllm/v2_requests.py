"""`SlotRequests`: the requests of vLLM's V2 model runner, by their slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from engine_sampler import SamplingParams

from .following import in_vocabulary
from .settings import params_or_vllms


class SlotRequest:
    """A request of the runner.

    key     its name for the sampler, never used twice.
    length  how many of its tokens, prompt included, `prompt` and `output` have.
    """

    def __init__(self, key: int, params: SamplingParams) -> None:
        self.key, self.params, self.length = key, params, 0
        self.prompt: list[int] = []
        self.output: list[int] = []


class SlotRequests:
    """Requests with the tokens that the runner has for them, which lie on the device.

    states    the runner's `RequestState`.
    sampling  the sampler's `SamplingStates`, which has chosen seeds for requests without one.
    """

    def __init__(self, states: Any, sampling: Any) -> None:
        self._states, self._sampling = states, sampling
        self._by_slot: dict[int, SlotRequest] = {}
        self._count = 0

    def add(self, slot: int, params: Any) -> None:
        """A request takes a slot, with vLLM's parameters; the one before it has left."""
        self._count += 1
        seed = int(self._sampling.seeds.np[slot]) % 2**64
        self._by_slot[slot] = SlotRequest(self._count, params_or_vllms(params).replace(seed=seed))

    def in_slots(self, slots: np.ndarray) -> list[SlotRequest] | None:
        """The requests in these slots, with all their tokens; None if one is not there, as in the runs that
        warm the device up."""
        found = [self._by_slot.get(slot) for slot in slots.tolist()]
        requests = [request for request in found if request is not None]
        if len(requests) < len(found):
            return None
        self._read(requests, slots)
        return requests

    def _read(self, requests: list[SlotRequest], slots: np.ndarray) -> None:
        """Copy what is new in the histories: a token or a few of each request, or all of a new one."""
        where = torch.from_numpy(slots).to(self._states.all_token_ids.gpu.device, torch.int64)
        totals = self._states.total_len.gpu[where].tolist()
        follow = []
        for i, (request, slot, total) in enumerate(zip(requests, slots.tolist(), totals, strict=True)):
            if request.length == 0 or total < request.length:  # new, or begun again
                prompt_length = int(self._states.prompt_len.np[slot])
                tokens = self._states.all_token_ids.gpu[slot, :total].tolist()
                request.prompt = in_vocabulary(tokens[:prompt_length], self._states.vocab_size)
                request.output = in_vocabulary(tokens[prompt_length:], self._states.vocab_size)
                request.length = total
            elif total > request.length:
                follow.append(i)
        if not follow:
            return
        begins = torch.tensor([requests[i].length for i in follow], device=where.device)
        width = max(totals[i] - requests[i].length for i in follow)
        columns = (begins[:, None] + torch.arange(width, device=where.device)).clamp(
            max=self._states.max_model_len - 1
        )
        rows = self._states.all_token_ids.gpu[where[follow][:, None], columns].tolist()
        for i, row in zip(follow, rows, strict=True):
            request = requests[i]
            new = row[: totals[i] - request.length]
            request.output.extend(in_vocabulary(new, self._states.vocab_size))
            request.length = totals[i]
