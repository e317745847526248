"""`NgramDrafter`: drafts from the text itself, for vLLM's speculative method "custom_class"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class NgramDrafter:
    """Proposes what followed the last tokens of a text where they stood before: the drafts of vLLM's method
    "ngram", without Numba.

    The longest match counts, of `prompt_lookup_min` to `prompt_lookup_max` tokens (5 where the configuration
    has neither), and the first one in the text of several.

        --speculative-config '{"method": "custom_class", "model": "engine_sampler_vllm.ngram.NgramDrafter",
                               "num_speculative_tokens": 3}'
    """

    def __init__(self, vllm_config: Any) -> None:
        settings = vllm_config.speculative_config
        longest, shortest = settings.prompt_lookup_max, settings.prompt_lookup_min
        self.longest: int = longest or shortest or 5
        self.shortest: int = shortest or longest or 5
        self.count: int = settings.num_speculative_tokens
        self.max_model_len: int = vllm_config.model_config.max_model_len

    def load_model(self, *arguments: Any, **keywords: Any) -> None:
        """There is no model."""

    def propose(self, *arguments: Any, slot_mappings: Any = None) -> list[list[int]]:
        """Drafts for each row of a batch; [] where nothing was drawn, and where nothing matches.

        arguments  vLLM's: the number of drafts, which vLLM 0.33 leaves out; what was drawn for each row; the
                   lengths of the texts, int [rows]; the texts, int [≥ rows, width].
        """
        *counts, sampled, lengths, texts = arguments
        count = min([self.count, *counts])
        return [
            self._drafts(text[: int(length)], count) if len(drawn) else []
            for drawn, length, text in zip(sampled, lengths, texts, strict=False)
        ]

    def _drafts(self, text: np.ndarray, count: int) -> list[int]:
        count = min(count, self.max_model_len - len(text))
        begin = _after_match(text, self.shortest, self.longest)
        return [] if begin is None or count <= 0 else text[begin : begin + count].tolist()


def _after_match(text: Sequence[int] | np.ndarray, shortest: int, longest: int) -> int | None:
    """Where the first of the longest earlier matches of the end of a text ends."""
    tokens = np.asarray(text)
    ends, matched = np.arange(len(tokens) - 1), None  # the last token of each candidate
    for length in range(1, min(longest, len(tokens) - 1) + 1):
        ends = ends[ends >= length - 1]
        ends = ends[tokens[ends - length + 1] == tokens[-length]]
        if not len(ends):
            break
        if length >= shortest:
            matched = int(ends[0]) + 1
    return matched
