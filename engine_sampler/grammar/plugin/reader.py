"""The grammar engine as the core knows it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import quoted
from ...contract import ConstraintReader, ParameterError, Vocabulary, Work
from ...contract.constraints import PendingConstraint


class GrammarReader(ConstraintReader):
    """Lark text, JSON Schema, regular expressions, choices and structural tags, see `engine_sampler.grammar`.

    `grammar` is a compiled grammar, a `Grammar`, a matcher, Lark text, or the name of a grammar.
    """

    name = "engine_sampler"

    def compiled(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        from .constraints import compiled_for

        return compiled_for(params, grammar, vocabulary)

    def matcher(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        from .constraints import compiled_for, matcher_of

        return matcher_of(compiled_for(params, grammar, vocabulary), vocabulary)

    def start(
        self,
        params: Mapping[str, Any],
        grammar: Any,
        vocabulary: Vocabulary,
        compiler: Any,
        client: Hashable,
    ) -> PendingConstraint | None:
        from .constraints import start_compiling

        return start_compiling(params, grammar, vocabulary, compiler, client)

    def prepare(self, vocabulary: Vocabulary) -> None:
        from .constraints import prepare_for

        prepare_for(vocabulary)

    def read_body(self, body: dict[str, Any], tool_family: str | None, reasoning: str) -> Mapping[str, Any]:
        from ..bodies.structured import structured_parameters

        return structured_parameters(body, tool_family, reasoning)  # type: ignore[arg-type]

    def check_limits(self, limits: Any) -> None:
        from ..limits import Limits

        if limits is not None and not isinstance(limits, Limits):
            raise ParameterError(f"grammar_limits={quoted(limits)} is not allowed: grammar.Limits")

    def fill_masks(
        self, matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
    ) -> dict[int, BaseException]:
        from ..engines.filling import fill_masks

        return fill_masks(matchers, bitmask, rows, work)
