"""transformers' `generate`: its own sampling, our `custom_generate`, and our `ChainLogitsProcessor`.

transformers has no grammars: with one, xgrammar's processor for transformers comes before its samplers.
Logprobs are those of the raw logits: `output_logits`, `log_softmax` and `topk` for transformers, as in its
`compute_transition_scores`.

Importing this module needs torch and xgrammar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

import torch
import xgrammar
import xgrammar.contrib.hf
from engine_sampler_transformers import NEUTRAL, ChainLogitsProcessor, custom_generate

from engine_sampler import SamplingParams, Tokenizer

from .cases import SCHEMA, TOP_N, Case, compiled_grammar, prompts
from .race import ModelClock, Side

OWN = "transformers"


class Engine:
    """One model with all ways to generate what a case describes."""

    def __init__(self, model: Any, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
        torch.set_num_threads(1)
        self._model, self._tokenizer, self._settings = model, tokenizer, settings
        self.clock = ModelClock()
        self._hooks = [
            model.register_forward_pre_hook(self.clock.start),
            model.register_forward_hook(self.clock.stop),
        ]

    def close(self) -> None:
        """Leave the model as it was."""
        for hook in self._hooks:
            hook.remove()

    def sides(self, case: Case) -> list[Side]:
        """All ways to generate what `case` describes, transformers' own first."""
        return [
            Side(OWN if not case.grammar else f"{OWN}, xgrammar", partial(self._by_transformers, case)),
            Side("`custom_generate`", partial(self._by_custom_generate, case)),
            Side("`ChainLogitsProcessor`", partial(self._by_processor, case)),
        ]

    def _by_transformers(self, case: Case, seed: int) -> list[list[int]]:
        processors = [xgrammar.contrib.hf.LogitsProcessor(self._own_grammar)] if case.grammar else []
        own = self._settings if self._draws else {}
        return self._generate_and_draw(case, seed, logits_processor=processors, **own)

    def _by_processor(self, case: Case, seed: int) -> list[list[int]]:
        params = SamplingParams(order="transformers", **self._settings)
        chain = ChainLogitsProcessor(params, tokenizer=self._tokenizer, grammar=self._grammar(case))
        return self._generate_and_draw(
            case, seed, logits_processor=[chain], **(NEUTRAL if self._draws else {})
        )

    def _generate_and_draw(self, case: Case, seed: int, **keywords: Any) -> list[list[int]]:
        """transformers draws, and the logprobs are computed from the logits that it returns."""
        torch.manual_seed(seed)
        output = self._generate(
            case,
            do_sample=self._draws,
            return_dict_in_generate=case.logprobs,
            output_logits=case.logprobs,
            **keywords,
        )
        if case.logprobs:
            top_logprobs(output, TOP_N)
        return self._new_tokens(output, case)

    def _by_custom_generate(self, case: Case, seed: int) -> list[list[int]]:
        logprobs = {"logprobs": TOP_N} if case.logprobs else {}
        params = SamplingParams(order="transformers", **self._settings, **logprobs)
        output = self._generate(
            case,
            return_dict_in_generate=case.logprobs,
            custom_generate=custom_generate,
            sampling_params=[params.replace(seed=seed * case.rows + row) for row in range(case.rows)],
            sampling_grammar=self._grammar(case),
            sampling_tokenizer=self._tokenizer if case.grammar else None,
        )
        return self._new_tokens(output, case)

    def _generate(self, case: Case, **keywords: Any) -> Any:
        prompt = self._prompts(case.rows)
        return self._model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=case.tokens, **keywords
        )

    # --- what all share --------------------------------------------------------------------------

    @property
    def _draws(self) -> bool:
        return bool(self._settings.get("temperature") != 0)

    def _prompts(self, rows: int) -> torch.Tensor:
        """int64 [rows, length]: the bytes of the prompts as tokens."""
        token_of = {token: i for i, token in enumerate(self._tokenizer.token_bytes)}
        return torch.tensor([[token_of[bytes([byte])] for byte in text.encode()] for text in prompts(rows)])

    def _new_tokens(self, output: Any, case: Case) -> list[list[int]]:
        sequences = output.sequences if case.logprobs else output
        return sequences[:, -case.tokens :].tolist()

    def _grammar(self, case: Case) -> Any:
        """Ours, compiled; None without one."""
        return compiled_grammar(self._tokenizer) if case.grammar else None

    @cached_property
    def _own_grammar(self) -> Any:
        info = xgrammar.TokenizerInfo(
            list(self._tokenizer.token_bytes),
            xgrammar.VocabType.RAW,
            stop_token_ids=list(self._tokenizer.eos_token_ids),
        )
        return xgrammar.GrammarCompiler(info).compile_json_schema(json.dumps(SCHEMA))


def top_logprobs(output: Any, n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each step the raw logprobs [rows, 1] of the new tokens, and [rows, n] of the n likeliest."""
    new = output.sequences[:, -len(output.logits) :]
    found = []
    for step, logits in enumerate(output.logits):
        logprobs = logits.log_softmax(dim=-1)
        found.append((logprobs.gather(1, new[:, step : step + 1]), logprobs.topk(n).values))
    return found
