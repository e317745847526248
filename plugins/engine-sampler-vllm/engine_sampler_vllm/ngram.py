"""`NgramDrafter`: drafts from the text itself, for vLLM's speculative method "custom_class"."""

from __future__ import annotations

from typing import Any

from engine_sampler.for_bridges import ngram_draft


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
        drafts = []
        for drawn, length, text in zip(sampled, lengths, texts, strict=False):
            count = min([self.count, *counts, self.max_model_len - int(length)]) if len(drawn) else 0
            drafts.append(ngram_draft(text[: int(length)], count, self.shortest, self.longest))
        return drafts
