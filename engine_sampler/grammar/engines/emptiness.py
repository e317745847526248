"""Why no text at all matches a grammar: a terminal that matches nothing, or a rule that never ends."""

from __future__ import annotations

from contextlib import suppress

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import Expressions
from ..derivatives.limits import Meter
from ..derivatives.loading import numbers_of
from ..errors import GrammarError, GrammarLimitError
from ..program.rules import Program

_EMPTY = "no text at all matches the grammar"


def with_reason(error: GrammarError, program: Program) -> GrammarError:
    """The error that `program` cannot be compiled, with the name of what is empty if that is the reason."""
    if error.text == _EMPTY and not program.parser:
        with suppress(GrammarLimitError):
            error.text += f": {_reason(program)}"
    return error


def _reason(program: Program) -> str:
    x = Expressions(Meter())
    numbers, derivatives = numbers_of(x, program.expressions), Derivatives(x)
    for name, node in zip(program.terminal_names, program.terminals, strict=True):
        if node >= 0 and not derivatives.live(numbers[node]):
            return f"the terminal {name} matches nothing"
    return f"the rule {program.rule_names[program.start]} never comes to an end"
