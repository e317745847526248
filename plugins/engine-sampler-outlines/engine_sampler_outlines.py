"""outlines (1.3): our grammars as a backend of its `Generator`.

    import outlines

    from engine_sampler_outlines import switch_on

    switch_on()
    model = outlines.from_transformers(hf_model, hf_tokenizer)
    nested = outlines.types.CFG('start: "(" start ")" | "x"')
    write = outlines.Generator(model, nested, backend="engine_sampler")
    text = write("Nested: ", max_new_tokens=40)

Every output type of outlines arrives as a JSON Schema, as a regular expression in Python's syntax, or as a
context-free grammar in Lark's language, GBNF or EBNF. Importing this module does not import outlines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import Grammar, Tokenizer
from engine_sampler.contract import Matcher, allocate_bitmask, token_rows, unpack_bitmask
from engine_sampler.for_bridges import PeerPlaces, dtype_name, like, to_numpy
from engine_sampler.stateless import fill_bitmasks

NAME = "engine_sampler"
"""What `Generator(backend=…)` calls the backend."""

PLACES = PeerPlaces("outlines", "engine-sampler-outlines")


def switch_on() -> None:
    """Let `Generator(model, output_type, backend="engine_sampler")` find this backend; outlines has no
    registry. All other names stay as they are. Raises `PeerError` for a release of outlines that does not
    look up its backends by `_get_backend(backend_name, model)`.
    """
    backends = PLACES.module("outlines.backends")
    if PLACES.is_replaced(backends, "_get_backend"):
        return
    PLACES.check([(backends, {"_get_backend": "backend_name model"})])
    find = backends._get_backend

    def find_ours_too(backend_name: str, model: Any) -> Any:
        return OutlinesBackend(model) if backend_name == NAME else find(backend_name, model)

    PLACES.replace(backends, "_get_backend", find_ours_too)


def switch_off() -> None:
    """Let outlines find its own backends alone."""
    PLACES.put_back()


class OutlinesBackend:
    """What outlines asks for processors of logits.

    model  a model of outlines: `Transformers`, `LlamaCpp` or `MLXLM`; or a `Tokenizer`, for a processor that
           is passed as `Generator(model, processor=…)`.

    Raises `GrammarError` for a grammar that is wrong or asks for what cannot be enforced.
    """

    def __init__(self, model: Any) -> None:
        self._tokenizer = model if isinstance(model, Tokenizer) else _tokenizer_of(model)

    def get_json_schema_logits_processor(
        self, json_schema: str, whitespace_pattern: str | None = None
    ) -> MatcherLogitsProcessor:
        """Values that are valid for a schema, given as JSON text."""
        return self._processor(Grammar.from_json_schema(json_schema, whitespace=whitespace_pattern))

    def get_regex_logits_processor(self, regex: str) -> MatcherLogitsProcessor:
        """Texts that a regular expression matches as a whole."""
        return self._processor(Grammar.from_regex(regex))

    def get_cfg_logits_processor(self, grammar: str) -> MatcherLogitsProcessor:
        """Texts of a context-free grammar."""
        return self._processor(Grammar.from_text(grammar))

    def _processor(self, grammar: Grammar) -> MatcherLogitsProcessor:
        return MatcherLogitsProcessor(grammar, self._tokenizer)


class MatcherLogitsProcessor:
    """A grammar for each row of a generation.

    `processor(input_ids int64 [rows, length], logits [rows, width]) -> logits`: a new array of the same
    library, dtype and device, −inf where a token may not follow; one row may come without its first
    dimension. The columns of the first call after `reset` are the prompts. A row that has ended, or has got a
    token that its grammar does not allow, has only the ids of the end left.
    """

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer) -> None:
        self._grammar = grammar.compile(tokenizer)
        self._size, self._eos = len(tokenizer), list(tokenizer.eos_token_ids)
        self.reset()

    def reset(self) -> None:
        """Make the next call the first of a new generation."""
        self._matchers: list[Matcher | None] = []
        """None for a row that has left its grammar."""
        self._length = 0

    def __call__(self, input_ids: Any, logits: Any) -> Any:
        """The logits with the masks of the rows; see the class."""
        values = to_numpy(logits)
        rows = np.atleast_2d(values)
        self._follow(token_rows(np.atleast_2d(to_numpy(input_ids))))
        allowed = self._allowed(rows.shape[1])
        return like(logits, np.where(allowed, rows, -np.inf).reshape(values.shape), dtype_name(logits))

    def _follow(self, columns: np.ndarray) -> None:
        """Accept the tokens that have come since the last call."""
        if len(columns) != len(self._matchers) or columns.shape[1] < self._length:
            self._matchers = [self._grammar.matcher() for _ in columns]
            self._length = columns.shape[1]
        for i, row in enumerate(columns[:, self._length :].tolist()):
            for token_id in row:
                matcher = self._matchers[i]
                if matcher is not None and not matcher.is_terminated() and not matcher.accept(token_id):
                    self._matchers[i] = None
        self._length = columns.shape[1]

    def _allowed(self, width: int) -> np.ndarray:
        """bool [rows, width]"""
        count, size = len(self._matchers), min(self._size, width)
        bitmask = allocate_bitmask(count, self._size)
        going = {i: m for i, m in enumerate(self._matchers) if m is not None and not m.is_terminated()}
        faults = fill_bitmasks(list(going.values()), bitmask, list(going))
        allowed = np.zeros((count, width), bool)
        for i in range(count):
            if i in going and i not in faults:
                allowed[i, :size] = unpack_bitmask(bitmask[i], size)
            else:
                allowed[i, self._eos] = True
        return allowed


def _tokenizer_of(model: Any) -> Tokenizer:
    """The vocabulary of a model of outlines."""
    if hasattr(model, "hf_tokenizer"):
        return Tokenizer.from_transformers(model.hf_tokenizer)
    if hasattr(model, "mlx_tokenizer"):
        return Tokenizer.from_transformers(model.mlx_tokenizer._tokenizer)
    from engine_sampler_llama_cpp import tokenizer_of

    return tokenizer_of(model.model)
