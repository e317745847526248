"""`GuidanceReader`: llguidance as a grammar engine of the scheduler."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llguidance import LLExecutor, LLParserLimits
from llguidance.numpy import fill_next_token_bitmask_par

from engine_sampler import ParameterError
from engine_sampler.contract import ConstraintError, ConstraintReader, Vocabulary, Work

from .grammars import lark_of, unenforced_in
from .matching import GuidedGrammar, GuidedMatcher
from .vocabulary import GuidedVocabulary

STRUCTURED = ("json_schema", "json_object", "regex", "choice", "grammar", "structural_tag")


class GuidanceReader(ConstraintReader):
    """The structured parameters as llguidance reads them.

    `grammar` is Lark text in llguidance's dialect, or a compiled grammar or a matcher of any engine;
    `grammar_limits` is an `llguidance.LLParserLimits`.
    """

    name = "llguidance"
    takes = (*STRUCTURED, "whitespace", "key_order", "unsupported")

    def compiled(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        name = next((name for name in STRUCTURED if params[name] not in (None, False)), "")
        value = params[name] if name else grammar
        if value is None or hasattr(value, "matcher") or hasattr(value, "fill_bitmask"):
            return value
        name = name or "grammar"
        if name == "grammar" and not isinstance(value, str):
            raise _not_allowed("grammar", value, "Lark text, a compiled grammar or a matcher")
        guided = GuidedVocabulary.of(vocabulary, name)
        try:
            lark = lark_of(name, value, params, guided.tokenizer)
            begin = guided.parsed(lark, vocabulary.grammar_limits)
            return GuidedGrammar(guided, begin, unenforced_in(name, value, params))
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"{name}: {error}") from error

    def matcher(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        compiled = self.compiled(params, grammar, vocabulary)
        return compiled.matcher() if hasattr(compiled, "matcher") else compiled

    def prepare(self, vocabulary: Vocabulary) -> None:
        if vocabulary.tokenizer is not None:
            GuidedVocabulary.of(vocabulary, "grammar")

    def check_limits(self, limits: Any) -> None:
        if limits is not None and not isinstance(limits, LLParserLimits):
            raise _not_allowed("grammar_limits", limits, "llguidance.LLParserLimits")

    def fill_masks(
        self, matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
    ) -> dict[int, BaseException]:
        """As its base does; the matchers of llguidance are filled in one call, by several threads."""
        together = _fillable_together(matchers, rows, bitmask.shape[1])
        others = [(m, row) for m, row in zip(matchers, rows, strict=True) if row not in together]
        faults = super().fill_masks([m for m, _ in others], bitmask, [row for _, row in others], work)
        return faults | _fill_together(together, bitmask) if together else faults


def _fillable_together(matchers: Sequence[Any], rows: Sequence[int], words: int) -> dict[int, GuidedMatcher]:
    """Matchers of llguidance by row, each once, of one vocabulary, whose masks have at most `words` words."""
    guided = {id(m): (row, m) for m, row in zip(matchers, rows, strict=True) if isinstance(m, GuidedMatcher)}
    first = next((m.vocabulary for _, m in guided.values() if m.vocabulary.words <= words), None)
    return {row: m for row, m in guided.values() if m.vocabulary is first}


def _fill_together(matchers: Mapping[int, GuidedMatcher], bitmask: np.ndarray) -> dict[int, BaseException]:
    """Fill the rows of matchers of one vocabulary; the faults by row."""
    width = next(iter(matchers.values())).vocabulary.guided
    masks = np.zeros((len(matchers), width), np.int32)
    guides = [(matcher.guide, i) for i, matcher in enumerate(matchers.values())]
    fill_next_token_bitmask_par(_executor(os.getpid()), guides, masks)
    faults: dict[int, BaseException] = {}
    for (row, matcher), mask in zip(matchers.items(), masks, strict=True):
        bitmask[row] = 0
        try:
            matcher.take(mask, bitmask[row])
        except ConstraintError as fault:
            faults[row] = fault
    return faults


@functools.lru_cache(maxsize=1)
def _executor(process: int) -> LLExecutor:
    """The threads of a process: a fork has none of its parent's."""
    return LLExecutor()


def _not_allowed(name: str, value: Any, allowed: str) -> ParameterError:
    return ParameterError(f"{name}={value!r:.100} is not allowed: {allowed}")
