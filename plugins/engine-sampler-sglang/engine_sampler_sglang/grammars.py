"""`MatcherGrammarBackend`: our grammars under SGLang's interface of grammar backends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sglang.srt.constrained import base_grammar_backend as bases
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_serving

from engine_sampler import Tokenizer
from engine_sampler.contract import bitmask_words
from engine_sampler.for_bridges import GrammarText, fill_texts, structured_grammar
from engine_sampler.stateless import apply_bitmask

logger = logging.getLogger("engine_sampler")

_ANY_JSON = "$$ANY$$"
"""What SGLang passes in place of a schema."""


class MaskCalls:
    """What SGLang calls on a grammar, or on its backend, about masks: int32 [rows, words] on the host."""

    _words = 0
    """Those of the tokenizer, which may have more tokens than the model."""

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        words = max(bitmask_words(vocab_size), self._words)
        return torch.full((batch_size, words), -1, dtype=torch.int32)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        if not logits.is_cuda:
            apply_bitmask(logits, vocab_mask)
            return
        from sglang.kernels.ops.grammar.bitmask_ops import apply_token_bitmask_inplace_triton

        apply_token_bitmask_inplace_triton(logits, vocab_mask)


class MatcherGrammar(MaskCalls, GrammarText, bases.BaseGrammarObject):
    """A grammar at one place of one text."""

    def __init__(self, compiled: Any, words: int) -> None:
        bases.BaseGrammarObject.__init__(self)
        GrammarText.__init__(self, compiled)
        self._words = words

    def accept_token(self, token: int) -> None:
        """Raises ValueError for a token that cannot follow: SGLang then ends the request."""
        self.current_token = token
        if not self.accept([token]):
            raise ValueError(f"token {token} is not allowed by the grammar of its request {self.fault or ''}")

    def copy(self) -> MatcherGrammar:
        return self.fork()

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        self.fill(vocab_mask.numpy(), idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: torch.Tensor) -> None:
        """One call for all."""
        if all(isinstance(entry.grammar, MatcherGrammar) for entry in entries):
            rows = [entry.row for entry in entries]
            fill_texts([entry.grammar for entry in entries], vocab_mask.numpy(), rows)
        else:
            bases.BaseGrammarObject.fill_vocab_mask_batched(entries, vocab_mask)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        forced = self.matcher.forced_tokens()
        return (forced, tokenizer.decode(forced)) if forced else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        return helper[1], -1

    def jump_and_retokenize(
        self, old_output_ids: list[int], new_output_ids: list[int], next_state: int
    ) -> None:
        """Follow a text whose tokens have been divided anew."""
        pairs = enumerate(zip(old_output_ids, new_output_ids, strict=False))
        same = next(
            (i for i, (old, new) in pairs if old != new), min(len(old_output_ids), len(new_output_ids))
        )
        self.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            self.accept_token(token)


class MatcherGrammarBackend(MaskCalls, bases.BaseGrammarBackend):
    """JSON Schema, regular expressions, EBNF or Lark, and structural tags. What cannot be compiled ends its
    request with the reason."""

    def __init__(self, tokenizer: Tokenizer, whitespace: str | int | None = None) -> None:
        super().__init__()
        self._tokenizer, self._whitespace = tokenizer, whitespace
        self._words = bitmask_words(len(tokenizer))

    is_support_token_filter = True
    set_token_filter = staticmethod(set_token_filter_torch)

    def dispatch_json(self, key_string: str) -> bases.BaseGrammarObject:
        return self._compiled("json", "true" if key_string == _ANY_JSON else key_string)

    def dispatch_regex(self, key_string: str) -> bases.BaseGrammarObject:
        return self._compiled("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> bases.BaseGrammarObject:
        return self._compiled("grammar", key_string)

    def dispatch_structural_tag(self, key_string: str) -> bases.BaseGrammarObject:
        return self._compiled("structural_tag", key_string)

    def _compiled(self, kind: str, text: str) -> bases.BaseGrammarObject:
        try:
            grammar = structured_grammar(kind, text, whitespace=self._whitespace)
            return MatcherGrammar(grammar.compile(self._tokenizer), self._words)
        except ValueError as error:  # among them GrammarError
            logger.warning("a grammar is refused: %s", error)
            return bases.InvalidGrammarObject(str(error))


def grammar_backend_for(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None
) -> bases.BaseGrammarBackend:
    """The backend for a server. SGLang does not wrap a registered backend for thinking; this does it."""
    serving = get_serving()
    ours = Tokenizer.from_transformers(tokenizer, eos_token_ids)
    backend = MatcherGrammarBackend(ours, _whitespace_of(serving))
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    return ReasonerGrammarBackend(
        backend, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking
    )


def _whitespace_of(serving: Any) -> str | int | None:
    """SGLang's three settings as one."""
    if serving.constrained_json_disable_any_whitespace:
        return "compact"
    pattern = serving.constrained_json_whitespace_pattern
    return serving.constrained_json_max_whitespace_cnt if pattern is None else pattern
