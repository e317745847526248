"""Compile a JSON Schema to rules."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EPSILON, repeat
from ..program.rules import ACCEPT, PlainEdge, Rules
from ..work import counted_work, kept_while_reading
from .document import Document, locate
from .emitting import Emitter, expressions_of_any_value
from .formula import ALWAYS
from .keywords.all_types import KEYWORDS
from .keywords.contradictions import no_value
from .keywords.without_effect import Told
from .layout import (
    Punctuation,
    Spacing,
    cached_if_short,
    nonempty,
    punctuation,
    spacing_of,
)
from .nodes import Expander
from .options import DEFAULTS, SchemaOptions
from .scalars.numbers import any_integer, any_number
from .scalars.texts import ANY_CHARACTER, PLAIN_BODY, PLAIN_CHARACTER, STRING, WHITESPACE
from .values import Literals, Values


def rules_from_schema(schema: Any, options: SchemaOptions = DEFAULTS) -> Rules:
    """The JSON texts whose value is valid under a schema, as rules.

    schema  an object as `json.loads` returns it (dict or bool), or JSON text

    The texts are those of RFC 8259 in valid UTF-8, with white space between tokens. Three rules are
    stricter: printable ASCII characters in keys, and in strings with constraints beyond their length,
    are written plainly, without `\\uXXXX` (see `texts`); numbers with constraints beyond their type
    have no needless exponent (see `numbers`), and by default integers have none at all; and a key that the
    schema names occurs at most once.
    Unknown keywords and formats are annotations, as the standard requires; those that look like mistakes are
    warned of, and are among the `unenforced` of the rules.

    Raises GrammarError if `schema` is not a JSON Schema or has no valid value, GrammarLimitError if a
    limit is reached, UnsupportedKeywordError for a keyword that cannot be enforced.
    """
    try:
        with counted_work():
            return _rules(schema, options)
    except GrammarLimitError as error:
        error.pointer = error.pointer or "#"
        raise


def _rules(schema: Any, options: SchemaOptions) -> Rules:
    first = _first_terminals(options.whitespace)
    rules = first.rules.copy()
    value, rules.unique_keys = _add(schema, rules, options, first.marks)
    rules.start = value
    if first.space is not None:
        rules.start = rules.rule("document")
        rules.define_automaton(rules.start, _between(value, first.space))
    return rules


_FREQUENT = (
    *(ANY_CHARACTER, STRING, PLAIN_CHARACTER, PLAIN_BODY),
    *(any_number(DEFAULTS.digits), any_integer(DEFAULTS.digits)),
)
"""What terminals of most schemas contain."""


def frequent_expressions() -> array[int]:
    """What the `expressions` of programs for schemas begin with, under the default options."""
    return _first_terminals(DEFAULTS.whitespace).rules.code()


class _FirstTerminals(NamedTuple):
    """The terminals with which all grammars of JSON begin; `space` is that around the whole text, if any."""

    rules: Rules
    marks: Punctuation
    space: int | None


@cached_if_short
def _first_terminals(whitespace: str | int) -> _FirstTerminals:
    rules, spacing = Rules(), spacing_of(whitespace)
    rules.prepare((*_FREQUENT, *expressions_of_any_value(DEFAULTS.digits)))
    if spacing is None:
        rules.ignore = [rules.terminal("WHITESPACE", repeat(WHITESPACE, 1))]
        return _FirstTerminals(rules, punctuation(rules, Spacing(EPSILON, EPSILON, EPSILON)), None)
    marks = punctuation(rules, spacing)
    outer = spacing.outer
    space = None if outer == EPSILON else rules.terminal("WHITESPACE", nonempty(outer))
    return _FirstTerminals(rules, marks, space)


def _between(value: int, space: int) -> list[list[PlainEdge]]:
    """The automaton of a value with white space around it, or none."""
    value_edge, end = (value, 2, ()), (ACCEPT, 3, ())
    return [[(space, 1, ()), value_edge], [value_edge], [(space, 3, ()), end], [end]]


def add_schema(schema: Any, rules: Rules, options: SchemaOptions = DEFAULTS) -> int:
    """Add the values of a schema to rules, and return their symbol.

    This does not rely on `rules.ignore`: white space is read wherever the options allow it inside the value,
    but not before or after it. Keys that the schema does not name may repeat. Arguments and errors are those
    of `rules_from_schema`.
    """
    with counted_work():
        return _add(schema, rules, options, _marks_within(rules, options))[0]


def open_schema(schema: Any, rules: Rules, options: SchemaOptions) -> tuple[Emitter, Literals]:
    """What converts the values of a schema to rules, and the literals of its root, whose object a caller
    writes in its own way, before it calls `tell`. White space, arguments and errors are those of
    `add_schema`."""
    document = Document(schema, options.draft, dict(options.resources))
    try:
        emitter, root = _opened(document, rules, options, _marks_within(rules, options))
    except GrammarError as error:
        locate(error, document.schema, None)
        raise
    return emitter, root


def _marks_within(rules: Rules, options: SchemaOptions) -> Punctuation:
    """The punctuation of a value within another text, without the help of `rules.ignore`."""
    spacing = spacing_of(options.whitespace)
    if spacing is None:
        anything = repeat(WHITESPACE)
        spacing = Spacing(anything, anything, EPSILON)
    return punctuation(rules, spacing)


def _opened(
    document: Document, rules: Rules, options: SchemaOptions, marks: Punctuation
) -> tuple[Emitter, Literals]:
    expander = Expander(document, KEYWORDS, options.unsupported, options.formats, options.digits)
    values = Values(expander)
    root = frozenset((values.expander.root(),)) - {ALWAYS}
    values.get(root)
    values.settle()
    return Emitter(values, rules, marks, options.key_order), root


def _add(schema: Any, rules: Rules, options: SchemaOptions, marks: Punctuation) -> tuple[int, bool]:
    """The symbol of the schema's values, and whether it matters that their keys are unique."""
    document = Document(schema, options.draft, dict(options.resources))
    try:
        emitter, root = _opened(document, rules, options, marks)
        if not emitter.values.is_productive(root):
            raise no_value(emitter.values, root)
        symbol = emitter.emit(root, "json")
    except GrammarError as error:
        locate(error, document.schema, schema if isinstance(schema, str) else None)
        raise
    tell(emitter.values.expander, rules, options)
    return symbol, emitter.unique_keys


def tell(expander: Expander, rules: Rules, options: SchemaOptions) -> None:
    """Record what the schema says without an effect, and warn of it."""
    left_out = kept_while_reading(Told).named(expander.unenforced)
    rules.unenforced |= dict.fromkeys([*left_out, *expander.without_effect.lines()])
    if options.unsupported != "ignore":
        expander.without_effect.warn()
