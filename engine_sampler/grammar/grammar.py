"""`Grammar`: a language that constrains a text, whatever notation it was written in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, Literal

from ..base.errors import quoted
from ..base.json_text import is_described
from ..tokenizer import Tokenizer
from .arguments import (
    check_choice,
    check_declared,
    check_name,
    check_text,
    checked_path,
    checked_paths,
    chosen_texts,
    named_texts,
    text_of_pattern,
    texts_of,
    written_json,
)
from .cache import Cache, CacheInfo
from .compiled import CompiledGrammar, SpecialName, cached_grammar, compiled_grammar
from .errors import GrammarError
from .limits import LIMITS, Limits
from .program.rules import Program, program_of
from .program.saved import read_saved, saved_text
from .program.special_names import SpecialNames
from .program.words import any_of
from .schema.options import DEFAULTS, schema_options
from .work import counted_work

if TYPE_CHECKING:
    from .correction import Check
    from .engines.captures import Captures, Steps


class Grammar:
    """A language; immutable. Built by one of the `from_` methods, compiled for a tokenizer by `compile`.

    kind     "lark", "json_schema", "regex", "choices", "structural_tag"
    program  the input of the engines
    key      a hash of its content, and the special tokens it names: equal keys mean equal languages
    weight   bytes of the program
    text     the text in Lark's language or in GBNF that it was read from; None for other kinds, for a loaded
             grammar, and for one in GBNF whose texts another rule than `root` derives

    The `from_` methods raise `GrammarError` for input that cannot be read, with line and column where they
    are known. Input that exceeds a limit raises `GrammarLimitError`. Equal arguments give the same object.
    """

    def __init__(
        self, kind: str, program: Program, special_names: Sequence[SpecialName] = (), text: str | None = None
    ) -> None:
        self.kind = kind
        self.text = text
        self.program = program
        self.special_names = tuple(special_names)
        self.weight = program.weight
        names = "".join(f"|{name}" for name in self.special_names)
        self.key = program.key + names

    def __repr__(self) -> str:
        return f"<Grammar {self.kind}, {self.program!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grammar) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    def from_lark(
        cls,
        text: str,
        *,
        lexer: Literal["dynamic_complete", "contextual"] = "dynamic_complete",
        start: str = "start",
        import_paths: Iterable[str] = (),
        declared: Mapping[str, str] | None = None,
        path: str | None = None,
        grammars: Mapping[str, Any] | None = None,
        limits: Limits = LIMITS,
    ) -> Grammar:
        """From a grammar in Lark's language: the language is exactly the one that lark accepts.

        lexer         "dynamic_complete": as lark's Earley parser with that lexer, so a terminal may end
                      wherever it can; "contextual": as its LALR parser with that lexer, so a terminal is
                      as long as possible, keywords are distinct from names, and priorities count
        start         the rule that derives the whole text
        import_paths  folders to search for imported grammars, before lark's and this package's
        declared      regular expressions for terminals that the grammar only declares (%declare)
        path          the file of the text, which relative imports start from
        grammars      those for `@name`, by name: texts in Lark's language, and schemas that are no text
        limits        bounds the length of the texts, and the work of reading them

        Beyond lark's syntax, `<|name|>` and `<[12,20-30]>` are special tokens, and `<[^5]>` is any token but
        one. `%json {...}` is a JSON Schema, `@name` one of `grammars`, and `rule[lazy]: ...` ends early.
        """
        from .lark.grammar import rules_from_lark
        from .lark.messages import limits_named
        from .lark.named_grammars import NamedGrammar, NamedGrammars

        check_choice("lexer", lexer, ("dynamic_complete", "contextual"))
        check_text("text", text, limits)
        check_name("start", start)
        path, paths = path if path is None else checked_path("path", path), checked_paths(import_paths)
        check_declared(declared)
        names, named = SpecialNames(), named_texts(grammars, limits)
        others = NamedGrammars({name: NamedGrammar(*parts) for name, *parts in named})

        def build() -> Grammar:
            arguments: Any = {"start": start, "path": path, "import_paths": paths, "special_tokens": names}
            with limits_named(text):
                if lexer == "contextual":
                    from .lark.contextual import rules_from_lalr as read
                else:
                    read, arguments["schema_rules"] = rules_from_lark, _add_schema
                rules = read(text, **arguments, declared=declared, named=others)
                return cls("lark", rules.program(), (*names.known, *rules.bindings), None if named else text)

        key = ("lark", lexer, text, start, paths, tuple(sorted((declared or {}).items())), path, named)
        is_imported = any("%import" in one for one in (text, *(one[2] for one in named)))
        reads_files = path is not None or bool(paths) or is_imported  # which may have changed since
        return cached_or_built(None if reads_files else key, build, limits, text)

    @classmethod
    def from_gbnf(cls, text: str, *, start: str = "root", limits: Limits = LIMITS) -> Grammar:
        """From a grammar in GBNF, llama.cpp's language, or in xgrammar's EBNF; see
        `engine_sampler.grammar.lark.gbnf`.

        start, limits   the rule that derives the whole text, and what bounds reading it: as in `from_lark`
        """
        from .lark.grammar import rules_from_gbnf
        from .lark.messages import limits_named

        check_text("gbnf", text, limits)
        check_name("start", start)

        def build() -> Grammar:
            names = SpecialNames()
            with limits_named(text):
                rules, of_root = rules_from_gbnf(text, start, names), text if start == "root" else None
                return cls("lark", rules.program(), (*names.known, *rules.bindings), of_root)

        return cached_or_built(("gbnf", text, start), build, limits, text)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        lexer: Literal["dynamic_complete", "contextual"] = "dynamic_complete",
        start: str | None = None,
        limits: Limits = LIMITS,
    ) -> Grammar:
        """From a grammar in Lark's language, or in GBNF or EBNF if it defines its rules by `::=`.

        It may also be a list of grammars as JSON, see `engine_sampler.grammar.lark.named_grammars`.

        lexer   as in `from_lark`; GBNF has no terminals, so that it is "dynamic_complete"
        start   the rule that derives the whole text; None: `start`, and `root` in GBNF
        limits  as in `from_lark`
        """
        from .lark.gbnf import is_gbnf
        from .lark.named_grammars import is_grammar_list, read_grammar_list

        check_text("grammar", text, limits)
        first, named = read_grammar_list(text) if is_grammar_list(text) else (text, None)
        if not is_gbnf(text) and isinstance(first, str):
            start = "start" if start is None else start
            return cls.from_lark(first, lexer=lexer, start=start, grammars=named, limits=limits)
        if lexer != "dynamic_complete":
            raise GrammarError(f"lexer={quoted(lexer)} is not allowed for GBNF and JSON: dynamic_complete")
        if named is not None:
            return cls.from_json_schema(first, limits=limits)
        return cls.from_gbnf(text, start="root" if start is None else start, limits=limits)

    @classmethod
    def from_json_schema(
        cls,
        schema: Any,
        *,
        unsupported: Literal["error", "warn", "ignore"] = "error",
        formats: Literal["assert", "annotate"] = "assert",
        whitespace: str | int | None = None,
        numbers: str | int | None = None,
        key_order: Literal["any", "schema"] = "any",
        draft: str | None = None,
        resources: Mapping[str, Any] | str | None = None,
        limits: Limits = LIMITS,
    ) -> Grammar:
        """From a JSON Schema (draft 2020-12, with the forms of drafts 4 to 2019-09): the JSON texts of valid
        values.

        schema       a dict, a bool, JSON text, or a type, as in `from_type`
        unsupported  "error" raises `UnsupportedKeywordError` for a keyword that cannot be enforced, "warn"
                     warns and ignores it, "ignore" ignores it; `unenforced` lists what is ignored
        formats      "assert": `format` restricts a string; "annotate": it does not
        whitespace   between tokens, and around the text. None: `schema.options`, up to 2 blanks,
                     then at most one line break with up to 120 blanks, as in pretty-printed documents; "any":
                     any amount; "compact": none, but for one blank after a comma or a colon; a number: up
                     to so many white-space characters; other strings: a regular expression for it
        numbers      how they are written. A number: up to so many digits before the point, and after it, and
                     up to 3 of an exponent. More are allowed where the schema itself needs more; integers
                     have no point and no exponent. "any": as JSON Schema has it, for which `1.0` and `1e5`
                     are integers, of any length. None: 40
        key_order    "any", or "schema": the keys of `properties` in its order, then all others
        draft        of schemas without `$schema`: "4", "6", "7", "2019-09" or "2020-12" (None)
        resources    schemas by URI, each as `schema`, to which a `$ref` may lead; nothing is ever fetched
        limits       bounds the length of the schemas as JSON text, and the work of reading them
        """
        others = texts_of("resources", resources, limits)
        options = schema_options(whitespace, numbers, key_order, unsupported, formats, draft, others)
        text = schema if isinstance(schema, str) else written_json(schema)
        check_text("schema", text, limits)

        def build() -> Grammar:
            from .schema.compiling import rules_from_schema  # loads a front end when it is first used

            return cls("json_schema", rules_from_schema(text, options).program())

        written = None if options is DEFAULTS else options  # None is hashed several times as fast
        return cached_or_built(("json_schema", text, written), build, limits, text)

    @classmethod
    def from_type(
        cls,
        described: Any,
        *,
        whitespace: str | int | None = None,
        numbers: str | int | None = None,
        key_order: Literal["any", "schema"] = "any",
        limits: Limits = LIMITS,
    ) -> Grammar:
        """The JSON texts of the values of a type; what a compiled pattern matches from beginning to end.

        described  a pydantic model or `TypeAdapter`; a dataclass, `TypedDict`, `NamedTuple`, `Enum`,
                   `Literal`, union, `list[...]` and the like, or a builtin type; a function: an object of
                   its arguments; a compiled pattern. pydantic reads those that do not say their own schema
        whitespace, numbers, key_order, limits   as in `from_json_schema`; a pattern has only limits

        Raises GrammarError for anything else. `from_json_schema` has more options, and takes the same.
        """
        if isinstance(described, re.Pattern):
            if (whitespace, numbers, key_order) != (None, None, DEFAULTS.key_order):
                raise GrammarError(
                    "whitespace, numbers and key_order are not allowed for a pattern: it describes no JSON"
                )
            return cls.from_regex(described, limits=limits)
        if not is_described(described):
            raise GrammarError(f"described={quoted(described)} is not allowed: a type, or a function")
        return cls.from_json_schema(
            described, whitespace=whitespace, numbers=numbers, key_order=key_order, limits=limits
        )

    @classmethod
    def from_json_object(
        cls,
        *,
        whitespace: str | int | None = None,
        numbers: str | int | None = None,
        limits: Limits = LIMITS,
    ) -> Grammar:
        """Any JSON object; `whitespace`, `numbers` and `limits` as in `from_json_schema`."""
        return cls.from_json_schema({"type": "object"}, whitespace=whitespace, numbers=numbers, limits=limits)

    @classmethod
    def from_regex(
        cls,
        pattern: str | re.Pattern[str],
        *,
        dialect: Literal["python", "ecma"] = "python",
        limits: Limits = LIMITS,
    ) -> Grammar:
        """The texts that `pattern` matches from beginning to end.

        pattern  a text, or a compiled pattern, whose flags hold
        dialect  its syntax: that of Python's `re`, or that of ECMAScript's regular expressions
        limits   as in `from_lark`
        """
        from .regex.pattern import pattern_expression

        text = text_of_pattern(pattern)
        check_text("pattern", text, limits)
        check_choice("dialect", dialect, ("python", "ecma"))

        def build() -> Grammar:
            return cls("regex", program_of("PATTERN", pattern_expression(text, dialect=dialect)))

        return cached_or_built(("regex", text, dialect), build, limits, text)

    @classmethod
    def from_choices(cls, choices: Any, *, limits: Limits = LIMITS) -> Grammar:
        """Exactly one of `choices`; `limits` as in `from_lark`.

        choices  strings; or an `Enum` or a `Literal` of strings or integers, which stand for themselves
        """
        texts = chosen_texts(choices)
        check_text("choices", "".join(texts), limits)

        def build() -> Grammar:
            return cls("choices", program_of("CHOICE", any_of(text.encode() for text in texts)))

        return cached_or_built(("choices", texts), build, limits)

    @classmethod
    def from_structural_tag(
        cls,
        tag: Any,
        *,
        whitespace: str | int | None = None,
        numbers: str | int | None = None,
        key_order: Literal["any", "schema"] = "any",
        unsupported: Literal["error", "warn", "ignore"] = "error",
        draft: str | None = None,
        resources: Mapping[str, Any] | str | None = None,
        limits: Limits = LIMITS,
    ) -> Grammar:
        """Text that contains tool calls or the like; see `engine_sampler.grammar.structural_tag`, and
        `tool_calls` for the tags of families of models.

        tag  as in vLLM and xgrammar, a dict or JSON text with "structures" and "triggers", or a "format"
        whitespace, numbers, key_order, unsupported, draft, resources, limits   as in `from_json_schema`,
             for the JSON in it whose format does not say so itself
        """
        from .structural_tag.structural_tag import rules_from_tag

        text = tag if isinstance(tag, str) else written_json(tag)
        check_text("tag", text, limits)
        names, others = SpecialNames(), texts_of("resources", resources, limits)
        formats = DEFAULTS.formats
        options = schema_options(whitespace, numbers, key_order, unsupported, formats, draft, others)

        def build() -> Grammar:
            rules = rules_from_tag(text, special_tokens=names, options=options)
            return cls("structural_tag", rules.program(), (*names.known, *rules.bindings))

        return cached_or_built(("structural_tag", text, options), build, limits, text)

    @classmethod
    def from_file(cls, path: str | Path, *, limits: Limits = LIMITS) -> Grammar:
        """From a file: `.lark`, `.json` (a schema) or `.grammar` (written by `save`); `limits` as in
        `from_lark`."""
        path = Path(checked_path("path", path))
        if path.suffix == ".lark":
            return cls.from_lark(path.read_text(encoding="utf-8"), path=str(path), limits=limits)
        if path.suffix == ".json":
            return cls.from_json_schema(path.read_text(encoding="utf-8"), limits=limits)
        if path.suffix == ".grammar":
            return cls.load(path)
        raise GrammarError(f"path={quoted(str(path))} is not allowed: a file .lark, .json or .grammar")

    @property
    def unenforced(self) -> tuple[str, ...]:
        """What the schema requires but the grammar does not, and what it says in vain: see `unsupported`."""
        return self.program.unenforced

    def save(self, path: str | Path) -> None:
        """Write the grammar to a file, for `load`: plain JSON, the same on every machine."""
        content = saved_text(self.kind, self.program, self.special_names)
        Path(path).write_text(content, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Grammar:
        """A grammar written by `save`. Raises GrammarError for any other file."""
        return cls(*read_saved(path))

    def compile(self, tokenizer: Tokenizer, *, limits: Limits = LIMITS) -> CompiledGrammar:
        """The grammar compiled for a tokenizer; from any thread. Compiled grammars of one tokenizer are
        cached and shared (`engine_sampler.grammar.cache_info`)."""
        return compiled_grammar(self.program, tokenizer, limits, self.special_names)

    def find_compiled(self, tokenizer: Tokenizer, *, limits: Limits = LIMITS) -> CompiledGrammar | None:
        """What `compile` would return from its cache; None if it would have to compile."""
        return cached_grammar(self.program, tokenizer, limits, self.special_names)

    def captures(self, text: str | bytes, *, steps: int | Steps | None = None) -> Captures:
        """What the rules with the attribute `capture` match in a text: for each name a list of captures, in
        the order in which they begin, outer ones before those in them; [] for rules that are not in the text.

        text   of the language, or the beginning of one: then the rules that have ended in it, as far as it
               goes; more text may change that
        steps  the most steps, a microsecond or two each; None: `limits.capture_steps` of the text

        Of several ways to read a text, the one whose first terminal is the longest counts, then the second,
        and so on; of those, the one whose outer rules consist of the longest parts, from the first one on.
        A choice that is still open depends only on the grammar and the text.

        Raises GrammarError for any other text, GrammarLimitError.
        """
        from .engines.captures import captures_of_text

        return captures_of_text(self.program, text, steps)

    def check(self, text: str | bytes) -> Check:
        """Whether `text` is in the language, and the first place where it leaves it."""
        from .correction import check

        return check(self.program, text)

    def complete(self, text: AnyStr, **bounds: int) -> AnyStr | None:
        """A shortest continuation that makes `text` a text of the language; None if there is none.

        bounds  `max_bytes` and `steps` of `correction.complete`
        """
        from .correction import complete

        return complete(self.program, text, **bounds)


_GRAMMARS: Cache[Grammar] = Cache(1024, 64 << 20, lambda grammar: grammar.weight)
"""Grammars by the arguments that they were built from."""

_ONLY_CACHED: ContextVar[bool] = ContextVar("_ONLY_CACHED", default=False)


class NotCachedError(Exception):
    """A grammar would have to be built; `key` is its key in the cache, None if it is never cached."""

    def __init__(self, key: Hashable) -> None:
        super().__init__("the grammar is not cached")
        self.key = key


@contextlib.contextmanager
def only_cached() -> Iterator[None]:
    """Within it, the `from_` methods raise `NotCachedError` instead of building a grammar."""
    token = _ONLY_CACHED.set(True)
    try:
        yield
    finally:
        _ONLY_CACHED.reset(token)


def cached_or_built(
    key: Hashable, build: Callable[[], Grammar], limits: Limits = LIMITS, text: str = ""
) -> Grammar:
    """The grammar of `key` from the cache, or newly built within `limits`; always built for None."""
    if limits is not LIMITS and limits != LIMITS and key is not None:
        key = key, limits  # what other limits admit is not found under these
    if not _ONLY_CACHED.get():
        try:
            with counted_work(limits):
                return build() if key is None else _GRAMMARS.get(key, build)
        except GrammarError as error:
            error.show(text)
            raise
    found = None if key is None else _GRAMMARS.find(key)
    if found is None:
        raise NotCachedError(key)
    return found


def remember_grammar(key: Hashable, grammar: Grammar) -> None:
    """Cache a grammar that was built elsewhere, under the key of a `NotCachedError`."""
    _GRAMMARS.put(key, grammar)


def grammar_cache_info() -> CacheInfo:
    """The state of the cache of grammars; `clear_grammar_cache` empties it."""
    return _GRAMMARS.info()


def clear_grammar_cache() -> None:
    """Drop all cached grammars; those in use stay valid."""
    _GRAMMARS.clear()


def _add_schema(*arguments: Any) -> int:
    """`schema.compiling.add_schema`, loaded when the first `%json` needs it."""
    from .schema.compiling import add_schema

    return add_schema(*arguments)
