"""What llama-cpp-python cannot combine with our processor, and the errors that say so to the caller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from engine_sampler import ParameterError

from .library import library

OWN_GRAMMAR = (
    "grammar, response_format with json_object, and tool_choice with the name of a tool are not allowed "
    "beside a LogitsProcessor: llama-cpp-python's own grammar may refuse the drawn token. SamplingParams "
    "take json_object, json_schema, grammar, regex, choice and structural_tag; from_dict takes tools"
)
LOGIT_BIAS = (
    "logit_bias is not allowed beside a LogitsProcessor: llama-cpp-python would use neither; "
    "allowed is SamplingParams(logit_bias=...)"
)


class SoleProcessors(list[Any]):
    """The only processor of a completion, which may know that it is. llama-cpp-python means to extend the
    list by one for its logit_bias, and then takes the result of `list.extend`, None, for its processors."""

    def __iter__(self) -> Iterator[Any]:
        return iter([processor.call_alone for processor in super().__iter__()])

    def extend(self, others: Iterable[Any]) -> NoReturn:
        raise ParameterError(LOGIT_BIAS)


def refuse_own_grammar(llm: Any, input_ids: np.ndarray) -> bool:
    """Whether `llm` is sampling after `input_ids` with a grammar of its own. If so, the completion raises
    `ParameterError` in place of its next token.

    Such a grammar comes after the processors, and ends the process if it does not allow the chosen token.
    """
    if b"grammar" not in samplers_after(llm, input_ids):
        return False
    llm._sampler = _Refusal(llm)
    return True


class _Refusal:
    """Takes the place of a completion's sampler: llama-cpp-python only prints the exceptions of a processor,
    but those of a sampler reach the caller, whichever method was called."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    def sample(self, *_: Any) -> NoReturn:
        self._llm._sampler = None
        raise ParameterError(OWN_GRAMMAR)


def samplers_after(llm: Any, input_ids: np.ndarray) -> list[bytes]:
    """llama.cpp's names of the samplers after the processors, if `llm` is sampling after `input_ids`;
    else none."""
    sampler: Any = getattr(llm, "_sampler", None)
    chain = getattr(sampler, "sampler", None)
    if chain is None or not np.may_share_memory(input_ids, llm.input_ids):
        return []
    lib = library()

    nameless = {index for index, _ in sampler.custom_samplers}  # llama.cpp must not be asked for their names
    others = [i for i in range(lib.llama_sampler_chain_n(chain)) if i not in nameless]
    return [lib.llama_sampler_name(lib.llama_sampler_chain_get(chain, i)) for i in others]
