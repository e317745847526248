"""Grammars: Lark text, JSON Schema, regular expressions, choices and structural tags as token masks.

    grammar = Grammar.from_json_schema({"type": "object", "required": ["name"]})
    compiled = grammar.compile(tokenizer)      # from any thread; cached, and shared by all requests
    scheduler.add(params, prompt, grammar=compiled)

A grammar passes through four stages:

    front ends   `lark` (also GBNF), `schema`, `regex`, `structural_tag` read what people write into `Rules`
    program      `program`: terminals (regular expressions over bytes) and rules (small automata), which
                 `Rules` encodes as plain arrays, a `Program`
    engines      `engines.native` (C, native/src/grammar) and `engines.reference` (Python, which matches
                 terminals by `derivatives`) compile a `Program` for a vocabulary, with equal results
    matchers     the state of one text: which tokens may follow it, and accepting one of them

`service` does this beside a running engine, in processes of its own.

Two packages work on a `Program` without a vocabulary: `printing` lists it for people; `correction` checks
and completes texts. The modules `grammar` and `compiled` hold the public classes, and cache
their objects; `plugin` brings them to the core, and finds the grammar that the parameters of a request name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.cached import lazy_names
from ..contract import Matcher, allocate_bitmask

if TYPE_CHECKING:
    from ..base.python_types import schema_of, tool_of
    from ..params.families import TOOL_FAMILIES
    from .bodies.tools import openapi_tools, tool_calls
    from .cache import CacheInfo
    from .compiled import CompiledGrammar, cache_info, clear_cache, prepare
    from .engines.captures import Capture
    from .engines.filling import fill_masks
    from .errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
    from .grammar import Grammar, clear_grammar_cache, grammar_cache_info
    from .library import library_grammar, library_names
    from .limits import Limits
    from .plugin import StopRegexCriteria
    from .plugin.constraints import constraint_of
    from .service import GrammarCompiler, GrammarSource

__all__ = [
    "TOOL_FAMILIES",
    "CacheInfo",
    "Capture",
    "CompiledGrammar",
    "Grammar",
    "GrammarCompiler",
    "GrammarError",
    "GrammarLimitError",
    "GrammarSource",
    "Limits",
    "Matcher",
    "StopRegexCriteria",
    "UnsupportedKeywordError",
    "allocate_bitmask",
    "cache_info",
    "clear_cache",
    "clear_grammar_cache",
    "constraint_of",
    "fill_masks",
    "grammar_cache_info",
    "library_grammar",
    "library_names",
    "openapi_tools",
    "prepare",
    "schema_of",
    "tool_calls",
    "tool_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "..base.python_types": "schema_of tool_of",
        "..params.families": "TOOL_FAMILIES",
        ".bodies.tools": "openapi_tools tool_calls",
        ".cache": "CacheInfo",
        ".compiled": "CompiledGrammar cache_info clear_cache prepare",
        ".engines.captures": "Capture",
        ".engines.filling": "fill_masks",
        ".errors": "GrammarError GrammarLimitError UnsupportedKeywordError",
        ".grammar": "Grammar clear_grammar_cache grammar_cache_info",
        ".library": "library_grammar library_names",
        ".limits": "Limits",
        ".plugin": "StopRegexCriteria",
        ".plugin.constraints": "constraint_of",
        ".service": "GrammarCompiler GrammarSource",
    },
)
