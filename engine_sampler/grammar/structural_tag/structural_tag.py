"""Structural tags as rules: one rule for each format (see the package)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..lark.gbnf import is_gbnf
from ..lark.grammar import rules_from_gbnf, rules_from_lark
from ..program.embedding import embed
from ..program.expression import both
from ..program.free_text import UNBOUNDED, free_text, text_bounds
from ..program.rules import Body, Rules, alternatives, repeated, sequence
from ..regex.pattern import pattern_expression
from ..schema.compiling import add_schema
from ..schema.keywords.without_effect import Told, WithoutEffect
from ..schema.options import MAX_WHITESPACE, SchemaOptions
from ..work import counted_work, kept_while_reading, spend, spend_on_each
from .document import REQUIRED, Fields, format_of, limits_named, nonempty_strings
from .elements import STYLE_NAMES, add_arguments
from .interruptions import Ends, InterruptedText, Interruption
from .marks import Marks
from .parameters import STYLES, CallContext
from .tokens import NamedTokens

DEFAULT_OPTIONS = SchemaOptions()

MAX_DEPTH = 50
"""Maximum nesting depth of formats."""

MAX_FORMATS = 5_000
"""Maximum number of formats in one structural tag."""

MAX_LARK = 100_000
"""Maximum number of characters of all grammars in one structural tag."""

_GRAMMAR_STEPS = 500
"""The steps for a grammar in a tag, however short it is."""

NO_ENDS: Ends = frozenset()
_TAGS = {"at_least_one": (bool, False), "stop_after_first": (bool, False)}


def rules_from_tag(
    tag: Mapping[str, Any] | str,
    *,
    special_tokens: Mapping[str, int],
    options: SchemaOptions = DEFAULT_OPTIONS,
) -> Rules:
    """The texts that a structural tag allows, as rules.

    tag             see the package
    special_tokens  ids of special tokens by name
    options         how its JSON is read and written, where a format does not say so itself

    Raises GrammarError, with the path of the fault, if `tag` is not a structural tag; GrammarLimitError; and
    UnsupportedKeywordError for a JSON Schema in the tag.
    """
    rules = Rules()
    with limits_named(), counted_work():
        rules.start = _Builder(rules, special_tokens, options).build(format_of(tag), "format")
    return rules


class _Builder:
    """Builds the rules of formats, one rule for each."""

    def __init__(self, rules: Rules, special_tokens: Mapping[str, int], options: SchemaOptions) -> None:
        self._rules, self._special_tokens, self._options = rules, special_tokens, options
        self._marks = Marks(rules)
        self._interrupted = InterruptedText(rules, self._marks)
        self._formats = self._lark = self._depth = 0
        self._schemas: dict[tuple[Any, ...], int] = {}
        self._tokens = NamedTokens(rules, special_tokens)

    def build(self, content: Any, path: str, ends: Ends = NO_ENDS, kind: str | None = None) -> int:
        """The symbol of the format `content`, followed by one of `ends`.

        kind  the type of the format if it does not state one
        """
        self._formats += 1
        if self._formats > MAX_FORMATS:
            raise GrammarLimitError(f"the structural tag has more than {MAX_FORMATS} formats")
        if self._depth == MAX_DEPTH:
            raise GrammarLimitError(
                f"the formats of the structural tag are nested more than {MAX_DEPTH} levels deep"
            )
        fields = Fields(content, path)
        kind = content.get("type", kind)
        method = _KINDS.get(kind) if isinstance(kind, str) else None
        if method is None:
            raise GrammarError(
                f"{path} is of the unknown type {quoted(kind)}: allowed are {', '.join(_KINDS)}"
            )
        self._depth += 1
        try:
            body = method(self, Fields({k: v for k, v in content.items() if k != "type"}, fields.path), ends)
        finally:
            self._depth -= 1
        rule = self._rules.rule(str(kind))
        self._rules.define(rule, body)
        return rule

    # --- Formats without formats inside: the ends follow them ---

    def const_string(self, fields: Fields, ends: Ends) -> Body:
        (value,) = fields.take(value=(str, REQUIRED))
        return sequence(self._marks.text(value), self._marks.any_of(ends))

    def json_schema(self, fields: Fields, ends: Ends) -> Body:
        schema, style, any_order, space, excludes, name = fields.take(
            json_schema=((dict, bool, str), REQUIRED),
            style=(str, "json"),
            any_order=(bool, None),
            max_whitespace_cnt=(int, None),
            excludes=(list, []),
            name=(str, ""),
        )
        if style not in STYLE_NAMES:
            raise GrammarError(
                f"{fields.path}.style={quoted(style)} is not allowed: {', '.join(STYLE_NAMES)}"
            )
        excluded = nonempty_strings(excludes, f"{fields.path}.excludes")
        if excluded and style not in STYLES:
            raise GrammarError(f"{fields.path}.excludes is not supported in the style {style}")
        options = self._options
        if space is not None:
            if not 0 <= space <= MAX_WHITESPACE:
                raise GrammarError(
                    f"{fields.path}.max_whitespace_cnt={space} is not allowed: 0 to {MAX_WHITESPACE}"
                )
            options = replace(options, whitespace=space)
        if any_order is not None:
            options = replace(options, key_order="any" if any_order else "schema")
        call = CallContext(self._rules, self._marks, options, excluded)
        if name and options.unsupported != "error":
            schema = self._usable(schema, style, name, call)
        return sequence(self._schema(schema, style, name or fields.path, call), self._marks.any_of(ends))

    def _usable(self, schema: Any, style: str, name: str, call: CallContext) -> Any:
        """A schema, or that of any object if it cannot be used, of which the grammar tells."""
        rules = Rules()
        try:
            add_arguments(schema, style, replace(call, rules=rules, marks=Marks(rules)))
        except GrammarLimitError:
            raise
        except GrammarError as error:
            told = WithoutEffect()
            told.add(f"{name} may be any object: {error}")
            self._rules.unenforced |= dict.fromkeys(told.lines())
            if call.options.unsupported == "warn":
                told.warn()
            return {"type": "object"}
        return schema

    def qwen_xml_parameter(self, fields: Fields, ends: Ends) -> Body:
        (schema,) = fields.take(json_schema=((dict, bool, str), REQUIRED))
        call = CallContext(self._rules, self._marks, self._options)
        return sequence(self._schema(schema, "qwen_xml", fields.path, call), self._marks.any_of(ends))

    def _schema(self, schema: Any, style: str, path: str, call: CallContext) -> int:
        """The symbol of a schema; equal schemas share one."""
        told = kept_while_reading(Told)
        told.schema = path
        try:
            key = (
                style,
                call.options,
                call.excludes,
                schema if isinstance(schema, str) else json.dumps(schema),
            )
            if key not in self._schemas:
                self._schemas[key] = add_arguments(schema, style, call)
        except GrammarError as error:
            raise type(error)(f"{path}: {error}") from error
        except RecursionError:
            raise GrammarLimitError(f"{path}: the schema is nested too deeply") from None
        finally:
            told.schema = ""
        return self._schemas[key]

    def grammar(self, fields: Fields, ends: Ends) -> Body:
        (text,) = fields.take(grammar=(str, REQUIRED))
        self._lark += len(text)
        if self._lark > MAX_LARK:
            raise GrammarLimitError(f"the grammars of a structural tag have more than {MAX_LARK} characters")
        spend(_GRAMMAR_STEPS)
        try:
            if is_gbnf(text):
                given = rules_from_gbnf(text, special_tokens=self._special_tokens)
            else:
                given = rules_from_lark(text, special_tokens=self._special_tokens, schema_rules=add_schema)
        except GrammarError as error:
            raise type(error)(f"{fields.path}: {error}") from error
        return sequence(embed(given, self._rules), self._marks.any_of(ends))

    def regex(self, fields: Fields, ends: Ends) -> Body:
        pattern, excludes = fields.take(pattern=(str, REQUIRED), excludes=(list, []))
        try:
            found = pattern_expression(pattern)
        except GrammarError as error:
            raise type(error)(f"{fields.path}: {error}") from error
        if excludes:
            found = both(found, free_text(nonempty_strings(excludes, f"{fields.path}.excludes")))
        return sequence(self._rules.terminal("PATTERN", found), self._marks.any_of(ends))

    def token(self, fields: Fields, ends: Ends) -> Body:
        (token,) = fields.take(token=((str, int), REQUIRED))
        return sequence(self._tokens.symbol(token, f"{fields.path}.token"), self._marks.any_of(ends))

    def any_text(self, fields: Fields, ends: Ends) -> Body:
        given, max_chars, max_tokens = fields.take(
            excludes=(list, []), max_chars=(int, None), max_tokens=(int, None)
        )
        bounds = text_bounds(max_chars, max_tokens, fields.path)
        excludes = nonempty_strings(given, f"{fields.path}.excludes")
        return self._marks.text_until(ends, excludes=excludes, bounds=bounds)

    def exclude_token(self, fields: Fields, ends: Ends) -> Body:
        (given,) = fields.take(exclude_tokens=(list, []))
        ids = self._tokens.ids(given, f"{fields.path}.exclude_tokens")
        return sequence(self._tokens.other_than("token", ids), self._marks.any_of(ends))

    def any_tokens(self, fields: Fields, ends: Ends) -> Body:
        given, most = fields.take(exclude_tokens=(list, []), max_tokens=(int, None))
        if most is not None and not 0 <= most <= UNBOUNDED:
            raise GrammarError(f"{fields.path}.max_tokens={most} is not allowed: 0 to {UNBOUNDED}")
        ids = self._tokens.ids(given, f"{fields.path}.exclude_tokens")
        return sequence(repeated(self._tokens.other_than("token", ids), 0, most), self._marks.any_of(ends))

    # --- Formats that contain formats ---

    def sequence(self, fields: Fields, ends: Ends) -> Body:
        (elements,) = fields.take(elements=(list, REQUIRED))
        if not elements:
            return self._marks.any_of(ends)
        last = len(elements) - 1
        return sequence(
            *(
                self.build(one, f"{fields.path}.elements[{i}]", ends if i == last else NO_ENDS)
                for i, one in enumerate(elements)
            )
        )

    def choice(self, fields: Fields, ends: Ends) -> Body:
        (elements,) = fields.take(elements=(list, REQUIRED))
        if not elements:
            raise GrammarError(f"{fields.path}.elements is empty")
        return alternatives(
            *(self.build(one, f"{fields.path}.elements[{i}]", ends) for i, one in enumerate(elements))
        )

    def optional(self, fields: Fields, ends: Ends) -> Body:
        (content,) = fields.take(content=(dict, REQUIRED))
        return alternatives(self.build(content, f"{fields.path}.content", ends), self._marks.any_of(ends))

    def plus(self, fields: Fields, ends: Ends) -> Body:
        return self._repeated(fields, ends, fields.take(content=(dict, REQUIRED))[0], 1, None)

    def star(self, fields: Fields, ends: Ends) -> Body:
        return self._repeated(fields, ends, fields.take(content=(dict, REQUIRED))[0], 0, None)

    def repeat(self, fields: Fields, ends: Ends) -> Body:
        low, high, content = fields.take(min=(int, REQUIRED), max=(int, REQUIRED), content=(dict, REQUIRED))
        if low < 0 or high < -1 or 0 <= high < low or max(low, high) > UNBOUNDED:
            raise GrammarError(
                f"{fields.path} repeats {low} to {high} times: allowed are 0 <= min <= max, or max -1"
            )
        return self._repeated(fields, ends, content, low, None if high < 0 else high)

    def _repeated(self, fields: Fields, ends: Ends, content: Any, low: int, high: int | None) -> Body:
        return sequence(
            repeated(self.build(content, f"{fields.path}.content"), low, high), self._marks.any_of(ends)
        )

    def tag(self, fields: Fields, ends: Ends) -> Body:
        begin, rest = self._tag(fields)
        return sequence(self._begin(begin, fields.path), rest, self._marks.any_of(ends))

    def _tag(self, fields: Fields) -> tuple[Any, Body]:
        """The beginning of a tag, and the body that follows it."""
        try:
            return self._begin_and_rest(fields)
        except GrammarError as error:
            error.tag = error.tag or fields.given
            raise

    def _begin_and_rest(self, fields: Fields) -> tuple[Any, Body]:
        begin, content, end = fields.take(
            begin=((str, dict), REQUIRED), content=(dict, REQUIRED), end=((str, list, dict), REQUIRED)
        )
        path = f"{fields.path}.content"
        if isinstance(end, dict):
            if content.get("type") in ("any_tokens", "exclude_token"):
                content = _excluding(content, end.get("token"))
            return begin, sequence(
                self.build(content, path), self.build(end, f"{fields.path}.end", kind="token")
            )
        if isinstance(end, str):
            end = [end]
        if not end:
            raise GrammarError(f"{fields.path}.end is an empty list")
        ends = nonempty_strings([one for one in end if one != ""], f"{fields.path}.end")
        if content.get("type") == "json_schema":  # which ends by itself
            optional = [sequence()] if "" in end else []
            after = [self._marks.any_of(ends)] if ends else []
            return begin, sequence(self.build(content, path), alternatives(*after, *optional))
        bodies = [self.build(content, path)] if "" in end else []
        if ends:
            bodies.append(self.build(content, path, ends))
        return begin, alternatives(*bodies)

    def _tags(self, fields: Fields, given: Sequence[Any]) -> list[tuple[Any, Body]]:
        """The tags in the field `tags`, which need not state their type."""
        bodies = []
        for number, one in enumerate(spend_on_each(given, 3)):
            path = f"{fields.path}.tags[{number}]"
            inner = Fields(one, path).given
            if inner.get("type", "tag") != "tag":
                raise GrammarError(f"{path} must be of the type tag, not {quoted(inner['type'])}")
            bodies.append(self._tag(Fields({k: v for k, v in inner.items() if k != "type"}, path)))
        return bodies

    def tags_with_separator(self, fields: Fields, ends: Ends) -> Body:
        given, separator, at_least_one, only_one = fields.take(
            tags=(list, REQUIRED), separator=(str, REQUIRED), **_TAGS
        )
        tags = [sequence(self._begin(begin, fields.path), rest) for begin, rest in self._tags(fields, given)]
        one = self._named("one_tag", alternatives(*tags))
        more = [] if only_one else [repeated(sequence(self._marks.text(separator), one))]
        separated = sequence(one, *more)
        return sequence(separated if at_least_one else repeated(separated, 0, 1), self._marks.any_of(ends))

    def triggered_tags(self, fields: Fields, ends: Ends) -> Body:
        given, tags, excludes, first, only_one = fields.take(
            triggers=(list, REQUIRED), tags=(list, REQUIRED), excludes=(list, []), **_TAGS
        )
        triggers = nonempty_strings(given, f"{fields.path}.triggers")
        interruptions: list[Interruption] = []
        whole: list[Body] = []
        for number, (begin, body) in enumerate(self._tags(fields, tags)):
            path = f"{fields.path}.tags[{number}]"
            if not isinstance(begin, str):
                raise GrammarError(f"{path} begins with a token: use token_triggered_tags for that")
            matching = [trigger for trigger in triggers if begin.startswith(trigger)]
            if not matching:
                raise GrammarError(
                    f"{path}.begin={quoted(begin)} is not allowed: it must start with one of the triggers"
                )
            after = self._named("tag", body)
            interruptions += (
                Interruption(one, sequence(self._marks.text(begin[len(one) :]), after)) for one in matching
            )
            whole.append(sequence(self._marks.text(begin), after))
        heads = whole if first else None
        return self._interrupted.at_strings(
            interruptions,
            triggers,
            nonempty_strings(excludes, f"{fields.path}.excludes"),
            ends,
            not only_one,
            heads,
        )

    def dispatch(self, fields: Fields, ends: Ends) -> Body:
        given, loop, excludes = fields.take(rules=(list, REQUIRED), loop=(bool, True), excludes=(list, []))
        interruptions = []
        for number, pair in enumerate(given):
            path = f"{fields.path}.rules[{number}]"
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise GrammarError(f"{path} is not a pair of a string and a format")
            nonempty_strings(pair[:1], path)
            interruptions.append(Interruption(pair[0], self.build(pair[1], f"{path}[1]")))
        triggers = frozenset(one.begin for one in interruptions)
        excluded = nonempty_strings(excludes, f"{fields.path}.excludes")
        return self._interrupted.at_strings(interruptions, triggers, excluded, ends, loop, None)

    def token_triggered_tags(self, fields: Fields, ends: Ends) -> Body:
        given, tags, excludes, first, only_one = fields.take(
            trigger_tokens=(list, REQUIRED), tags=(list, REQUIRED), exclude_tokens=(list, []), **_TAGS
        )
        triggers = self._tokens.ids(given, f"{fields.path}.trigger_tokens")
        excluded = self._tokens.ids(excludes, f"{fields.path}.exclude_tokens")
        bodies: list[Body] = []
        for number, (begin, body) in enumerate(self._tags(fields, tags)):
            path = f"{fields.path}.tags[{number}]"
            if isinstance(begin, str):
                raise GrammarError(f"{path} begins with a string: use triggered_tags for that")
            token = Fields(begin, f"{path}.begin").given.get("token")
            if self._tokens.id(token, f"{path}.begin.token") not in triggers:
                raise GrammarError(f"{path} begins with a token that is not a trigger")
            bodies.append(sequence(self._tokens.symbol(token, path), body))
        one = self._named("one_tag", alternatives(*bodies))
        free = self._tokens.other_than("text", [*triggers, *excluded])
        return self._interrupted.at_tokens(free, one, ends, not only_one, first)

    def token_dispatch(self, fields: Fields, ends: Ends) -> Body:
        given, loop, excludes = fields.take(
            rules=(list, REQUIRED), loop=(bool, True), exclude_tokens=(list, [])
        )
        excluded = self._tokens.ids(excludes, f"{fields.path}.exclude_tokens")
        bodies: list[Body] = []
        for number, pair in enumerate(given):
            path = f"{fields.path}.rules[{number}]"
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise GrammarError(f"{path} is not a pair of a token and a format")
            excluded.append(self._tokens.id(pair[0], f"{path}[0]"))
            bodies.append(
                sequence(self._tokens.symbol(pair[0], f"{path}[0]"), self.build(pair[1], f"{path}[1]"))
            )
        one = self._named("one_rule", alternatives(*bodies))
        free = repeated(self._tokens.other_than("token", excluded))
        return self._interrupted.at_tokens(free, one, ends, loop, False)

    # --- Common parts ---

    def _begin(self, begin: Any, path: str) -> Body:
        if isinstance(begin, str):
            return self._marks.text(begin)
        return self.build(begin, f"{path}.begin", kind="token")

    def _named(self, name: str, body: Body) -> int:
        """A rule for a body that is used several times."""
        rule = self._rules.rule(name)
        self._rules.define(rule, body)
        return rule


def _excluding(content: Mapping[str, Any], token: Any) -> dict[str, Any]:
    """A format of tokens that excludes one more."""
    excluded = content.get("exclude_tokens", [])
    return {**content, "exclude_tokens": [*excluded, token] if isinstance(excluded, list) else excluded}


_KINDS = {
    "const_string": _Builder.const_string,
    "json_schema": _Builder.json_schema,
    "grammar": _Builder.grammar,
    "regex": _Builder.regex,
    "qwen_xml_parameter": _Builder.qwen_xml_parameter,
    "any_text": _Builder.any_text,
    "token": _Builder.token,
    "exclude_token": _Builder.exclude_token,
    "any_tokens": _Builder.any_tokens,
    "sequence": _Builder.sequence,
    "or": _Builder.choice,
    "optional": _Builder.optional,
    "plus": _Builder.plus,
    "star": _Builder.star,
    "repeat": _Builder.repeat,
    "tag": _Builder.tag,
    "triggered_tags": _Builder.triggered_tags,
    "token_triggered_tags": _Builder.token_triggered_tags,
    "tags_with_separator": _Builder.tags_with_separator,
    "dispatch": _Builder.dispatch,
    "token_dispatch": _Builder.token_dispatch,
}
