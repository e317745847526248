"""The language of an expression, decided by the engine in Python."""

from __future__ import annotations

from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.program.expression import EMPTY, Expression, literal
from engine_sampler.grammar.program.rules import Rules, sequence


class Language:
    """The texts of an expression, each followed by the text `then`."""

    def __init__(self, part: Expression, then: str = "") -> None:
        rules = Rules()
        symbol = rules.terminal("TEXT", part)
        rules.start = rules.rule("start")
        after = (rules.terminal("THEN", literal(then.encode())),) if then else ()
        rules.define(rules.start, sequence(symbol, *after))
        try:
            self._matcher = None if part == EMPTY else ReferenceGrammar(rules.program(), [], ()).matcher()
        except GrammarError:  # the language is empty
            self._matcher = None

    def __contains__(self, text: str) -> bool:
        if self._matcher is None:
            return False
        matcher = self._matcher.fork()
        return matcher.accept_bytes(text.encode()) and matcher.is_accepting()
