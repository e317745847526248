"""How many tokens the rows of a `SamplingMetadata` have, whatever pads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .growing import Lengths
from .histories import Padding, TokenRows
from .metadata import SamplingMetadata

_MOST_SEQUENCES = 16_384
"""Of how many sequences the lengths of their prompts are remembered."""


class PromptLengths:
    """The lengths of the prompts of sequences, from metadata that told them when the sequences began."""

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}

    def note(self, metadata: SamplingMetadata) -> None:
        """Remember those that `metadata` tells, for siblings and beams that begin as well."""
        lengths = metadata.prompt_lengths
        if lengths is None:
            return
        begins = metadata.prefill_array
        for (start, _), group, reserved in zip(
            metadata.group_indices, metadata.batch_sequence_ids, metadata.reserved_sequence_ids, strict=True
        ):
            if begins[start]:
                ids = (*group.tolist(), *reserved.tolist())
                self._lengths.update(dict.fromkeys(ids, int(lengths[start])))
        while len(self._lengths) > max(_MOST_SEQUENCES, len(lengths)):
            del self._lengths[next(iter(self._lengths))]

    def forget(self, sequence_ids: Sequence[int]) -> None:
        """Forget sequences that have ended; unknown ones are ignored."""
        for sequence_id in sequence_ids:
            self._lengths.pop(sequence_id, None)

    def lengths(self, metadata: SamplingMetadata) -> Lengths:
        """What is known of the rows of `metadata`."""
        outputs = metadata.known_lengths
        if not self._lengths or (outputs is None and not metadata.is_prefill):
            return None, outputs
        prompts = np.array([self._lengths.get(i, -1) for i in metadata.all_sequence_ids.tolist()])
        added = np.zeros(len(prompts), np.int64) if outputs is None else outputs
        known = (prompts >= 0) & (metadata.prefill_array if outputs is None else True)
        return np.where(known, prompts + added, -1), outputs


def read_up_to(
    padding: Padding, name: str, ids: np.ndarray | None, lengths: np.ndarray | None
) -> TokenRows | None:
    """The tokens in rows of `ids` up to the `lengths` that are known."""
    if ids is not None and lengths is not None:
        ends = np.where(lengths < 0, ids.shape[1], lengths)
        if (ends < ids.shape[1]).any():
            ids = np.where(np.arange(ids.shape[1]) < ends[:, None], ids, padding.vocab_size)
    return padding.read(name, ids)
