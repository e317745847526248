"""Grammars: Lark text, JSON Schema, regular expressions, choices and structural tags as token masks.

    grammar = Grammar.from_json_schema({"type": "object", "required": ["name"]})
    compiled = grammar.compile(tokenizer)      # any thread; kept, and shared by all requests
    scheduler.add(params, prompt, grammar=compiled)

A text under a grammar goes through four places, each a module or two:

    front ends   lark_grammar, schema, regex, tags: what people write, as `Rules`
    rules        terminals (`expression`: regular expressions over bytes) and rules, as plain arrays
    engines      native (C, native/src/grammar) and reference (Python): equal results
    matchers     one text: which tokens may follow, and going on with one
"""

from ..contract import Matcher, allocate_bitmask
from .cache import CacheInfo
from .compiled import CompiledGrammar, cache_info, clear_cache, prepare
from .errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from .grammar import Grammar, clear_grammar_cache, grammar_cache_info
from .library import library_grammar, library_names
from .limits import Limits

__all__ = [
    "CacheInfo",
    "CompiledGrammar",
    "Grammar",
    "GrammarError",
    "GrammarLimitError",
    "Limits",
    "Matcher",
    "UnsupportedKeywordError",
    "allocate_bitmask",
    "cache_info",
    "clear_cache",
    "clear_grammar_cache",
    "grammar_cache_info",
    "library_grammar",
    "library_names",
    "prepare",
]
