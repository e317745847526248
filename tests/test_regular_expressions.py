"""No pattern of a client reaches `re`, and our own patterns match any text of a client in linear time.

To match a pattern, `re` may take exponential time, under the interpreter's lock and beyond every limit. So it
gets constants only. A new use fails here until it is a constant, or is listed with the reason why it is safe.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar, GrammarError

from .backtracking import LINEAR, degree

PACKAGE = Path(__file__).resolve().parents[1] / "engine_sampler"
TEMPLATES = PACKAGE / "cli" / "templates"

MATCHING = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}

HARMLESS = {"escape", "error", "Match", "Pattern", *"A I M S U X ASCII DOTALL IGNORECASE MULTILINE".split()}
HARMLESS |= {"UNICODE", "VERBOSE"}
"""What else is used of `re`: none of it reads a pattern."""

VARIABLE = {
    "grammar.program.unicode: re.finditer(pattern, _text_characters())": r"two constants, \w+ and \d+",
    "cli.new: re.sub('|'.join(names), lambda found: names[found[0]], text)": "three names in our templates",
}
"""Calls whose pattern is not a constant, and what it is."""

COMPILED_LATER = {
    "messages.definition": "a class of the characters with which marks begin",
    "messages.arguments.parameters": "a class of the characters with which marks begin",
}
"""Modules that compile patterns after their import, and what these are: one character long each."""

LOADERS = {
    "for_bridges.places",
    "base.cached",
    "cli.main",
    "contract.deferred",
    "demo.corpus",
    "messages.parser",
    "registry.loading",
}
"""Modules that import others by names that no client chooses: of peers, engines and plugins."""

SLOWER = {
    "grammar.lark.statements._WORD": "a match begins where the last one ended, and looks at no word twice",
    "grammar.lark.gbnf.reading._WORD": "a match begins where the last ended; others are errors, or read",
    "grammar.lark.gbnf.reading._MACRO_HEAD": "it begins at the beginning of a line only",
    "grammar.lark.gbnf.reading._FIRST_HEAD": "it is matched once, at the beginning of the text",
    "grammar.lark.gbnf.reading._KEY": "it is matched where an argument begins; what fails is read as a word",
    "grammar.lark.gbnf.attributes._ATTRIBUTE": "a match begins where the last one ended; else an error",
    "grammar.lark.extensions.parametric._VALUE": "it is matched where a value begins; what fails is an error",
    "grammar.lark.extensions.parametric._CALL": "it is matched with whole texts only, each at most 21 times",
    "backends.library.header: re.findall": "the text is our own header",
    "grammar.engines.unique_items.vocabulary._STRING_OR_SPACE": "it reads single tokens, each once",
    "grammar.engines.unique_items.vocabulary._WHOLE": "it reads single tokens, each once",
    "params.families.templates._WORDS": "it reads what our own families write",
    "messages.harmony._WORD": "it is matched once, in a header of 512 characters at most",
}
"""Patterns that could take quadratic time if they were tried everywhere in a text, and why they do not."""

FROM_LARK = {
    "Tree Token": "nodes of trees",
    "Symbol Terminal NonTerminal RuleOptions TOKEN_DEFAULT_PRIORITY": "what rules are made of",
    "LarkError UnexpectedToken VisitError GrammarError": "errors",
    "Pattern PatternStr PatternRE TerminalDef": "patterns as text; their widths are never asked for",
    "PrepareLiterals TerminalTreeToPattern": "read and join patterns as text; `patterns` joins alternatives",
    "Grammar load_grammar PackageResource stdlib_loader": "parse a grammar with lark's own constant patterns",
}
"""What is used of lark: it hands terminals to `re` in its lexers, and where it sorts patterns by width."""

SORTED_BY_LARK = {"max_width", "min_width", "expansions"}
"""Attributes of lark's that parse a pattern with `re`."""


def name_of(path: Path) -> str:
    """The name of a module without the package's."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


class Module:
    """A module of the package: its name, and the nodes of its tree."""

    def __init__(self, path: Path) -> None:
        self.name = name_of(path)
        self.tree = ast.parse(texts()[path])
        self._nodes = list(ast.walk(self.tree))

    def nodes(self, kind: type) -> Iterator[Any]:
        return (node for node in self._nodes if isinstance(node, kind))

    def patterns(self) -> dict[str, re.Pattern[Any]]:
        """The patterns that the module has compiled, by their names."""
        module = import_module(f"engine_sampler.{self.name}")
        return {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}


@cache
def texts() -> dict[Path, str]:
    """The texts of all modules of the package."""
    paths = (path for path in sorted(PACKAGE.rglob("*.py")) if TEMPLATES not in path.parents)
    return {path: path.read_text(encoding="utf-8") for path in paths}


@cache
def imports() -> list[tuple[Path, str, str]]:
    """The lines that import something: the module, the first word, and what it imports from, or all of it."""
    line = re.compile(r"^ *(import|from) ([^#\n]*)", re.MULTILINE)
    return [(path, *found) for path, text in texts().items() for found in line.findall(text)]


def users_of(library: str) -> list[Path]:
    return sorted({path for path, _, what in imports() if re.match(rf"{library}\b", what)})


@cache
def users_of_re() -> list[Module]:
    return list(map(Module, users_of("re")))


def of_re(node: ast.AST) -> str:
    """`x` for `re.x`, otherwise nothing."""
    is_one = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"
    return node.attr if is_one else ""  # type: ignore[attr-defined]


def test_re_is_imported_by_its_name_and_nothing_like_it_is() -> None:
    """So that the following tests see its uses."""
    alike = re.compile(r"(?:re|regex|_?sre\w*|fnmatch|interegular)\b")
    assert {(word, what) for _, word, what in imports() if alike.match(what)} == {("import", "re")}
    dynamic = {name_of(path) for path, text in texts().items() if re.search("import_module|__import__", text)}
    assert dynamic == LOADERS


def test_re_gets_constant_patterns_only() -> None:
    variable = set()
    for module in users_of_re():
        at_import = {id(one) for node in module.tree.body for one in outside_of_functions(node)}
        for call in module.nodes(ast.Call):
            if (function := of_re(call.func)) in MATCHING and id(call) not in at_import:
                if function == "compile":
                    assert module.name in COMPILED_LATER, f"{module.name} compiles a pattern after its import"
                elif not isinstance(call.args[0], ast.Constant):
                    variable.add(f"{module.name}: {ast.unparse(call)}")
    assert variable == set(VARIABLE)


def outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated when the module is imported, before any client's text is there."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from outside_of_functions(child)


def test_nothing_else_of_re_is_used_and_nobody_is_given_it() -> None:
    assert len(users_of_re()) > 10
    for module in users_of_re():
        bases = {id(node.value) for node in module.nodes(ast.Attribute)}
        assert all(id(node) in bases for node in module.nodes(ast.Name) if node.id == "re"), module.name
        used = set(filter(None, map(of_re, module.nodes(ast.Attribute))))
        assert used <= MATCHING | HARMLESS, module.name


def test_no_text_makes_a_pattern_of_ours_take_more_than_linear_time() -> None:
    """Otherwise a long text of a client would hold the interpreter's lock for hours, as `{1,` with a hundred
    thousand blanks did."""
    quadratic = set()
    for module in users_of_re():
        whole = {node.value.id for node in module.nodes(ast.Attribute) if is_fullmatch(node)}
        for name, pattern in module.patterns().items():
            assert degree(pattern.pattern, pattern.flags) == LINEAR, f"{module.name}.{name}"
            if name in whole:
                assert degree(pattern.pattern, pattern.flags, whole=True) == LINEAR, f"{module.name}.{name}"
            if degree(pattern.pattern, pattern.flags, floating=True) != LINEAR:
                quadratic.add(f"{module.name}.{name}")
        for call in module.nodes(ast.Call):
            if of_re(call.func) in MATCHING - {"compile"} and isinstance(call.args[0], ast.Constant):
                ways = {"whole": True} if of_re(call.func) == "fullmatch" else {"floating": True}
                if degree(call.args[0].value, **ways) != LINEAR:
                    quadratic.add(f"{module.name}: {ast.unparse(call.func)}")
    assert quadratic == set(SLOWER)


def is_fullmatch(node: ast.Attribute) -> bool:
    return node.attr == "fullmatch" and isinstance(node.value, ast.Name)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[ab]*c|a{2,9}", LINEAR),
        ("a*a*b", "polynomial"),
        (r"\{ *\d* *(?:, *\d* *)?\}", "polynomial"),
        ("(?=a*b)a*c", LINEAR),
        ("(?:a(?=a*b))*c", "polynomial"),
        ("(a+)+c", "exponential"),
        ("(?:a|ab?|ba)*c", "exponential"),
        ("(?:a{1,2})*c", "exponential"),
        (r'"(?:[^"\\]|\\["\\]|\\)*"', "exponential"),
        (r'"(?:[^"\\]|\\["\\]|\\(?!["\\]))*"', LINEAR),
        ("(?:a|a)*", LINEAR),  # it ends wherever it cannot go on
    ],
)
def test_the_time_that_a_pattern_may_take_is_recognised(pattern: str, expected: str) -> None:
    assert degree(pattern) == expected


def test_a_search_that_may_fail_late_at_each_position_is_recognised() -> None:
    assert degree("a*b") == LINEAR
    assert degree("a*b", floating=True) == degree("x[^y]*y", floating=True) == "polynomial"
    assert degree("x[^xy]*y", floating=True) == LINEAR
    assert (degree("(?:a|b|ab)*"), degree("(?:a|b|ab)*", whole=True)) == (LINEAR, "exponential")


def test_lark_is_used_where_it_does_not_give_patterns_to_re() -> None:
    listed = set(" ".join(FROM_LARK).split())
    assert {word for _, word, what in imports() if re.match(r"lark\b", what)} == {"from"}
    for module in map(Module, users_of("lark")):
        for node in module.nodes(ast.ImportFrom):
            if not node.level and (node.module or "").split(".")[0] == "lark":
                assert {alias.name for alias in node.names} <= listed, module.name
        attributes = {node.attr for node in module.nodes(ast.Attribute)}
        assert attributes.isdisjoint(SORTED_BY_LARK), module.name


# --- while grammars are read ----------------------------------------------------------------------

MARK = "qzj"
TERMINALS = f'W: /{MARK}+/ | /({MARK}|a)+/i | "{MARK}".."z"\n'.replace(f'"{MARK}".."z"', f"/[{MARK}]/")
LARK = f"""
    start: (W | K | V)+ /!{MARK}?/
    W: /{MARK}+/ | /({MARK}|a)+/i | /[{MARK}]/
    V: /-{MARK}a*?b/ | /c/
    K: "{MARK}{MARK}"
    %ignore /_{MARK}/
"""
GBNF = f'root ::= [{MARK}]+ "{MARK}" [^{MARK}]{{2,3}}'
SCHEMA = {
    "properties": {"a": {"type": "string", "pattern": f"^{MARK}+$"}},
    "patternProperties": {f"^{MARK}": {"type": "integer"}},
    "propertyNames": {"pattern": MARK},
}
TAG = {"type": "structural_tag", "format": {"type": "regex", "pattern": f"{MARK}+"}}
VOCABULARY = Tokenizer([bytes([byte]) for byte in range(256)] + [b"</s>"], [256])


def corrected(grammar: Grammar) -> None:
    grammar.check(MARK * 2)
    grammar.complete(MARK)


def refused(text: str) -> None:
    for lexer in ("contextual", "dynamic_complete"):
        with pytest.raises(GrammarError, match="unterminated subpattern"):
            Grammar.from_lark(text, lexer=lexer)


def requested(**params: Any) -> None:
    Scheduler(257, VOCABULARY).add(SamplingParams(**params))


FRONT_ENDS: dict[str, Callable[[], Any]] = {
    "regex": lambda: corrected(Grammar.from_regex(f"{MARK}+(a|b)*")),
    "schema": lambda: Grammar.from_json_schema(SCHEMA),
    "lark": lambda: Grammar.from_lark(LARK),
    "contextual": lambda: corrected(Grammar.from_lark(LARK, lexer="contextual")),
    "declared": lambda: Grammar.from_lark("start: D\n%declare D", declared={"D": f"{MARK}+"}),
    "gbnf": lambda: Grammar.from_gbnf(GBNF),
    "structural tag": lambda: Grammar.from_structural_tag(TAG),
    "choices": lambda: Grammar.from_choices([f"({MARK}+)+", f"{MARK}["]),
    "banned_regex": lambda: requested(banned_regex=[f"{MARK}+b"]),
    "stop_regex": lambda: requested(stop_regex=[f"{MARK}+b"]),
    "stop": lambda: requested(stop=[f"({MARK}+)+b"]),
    "grammar": lambda: requested(grammar=LARK),
    "faulty": lambda: refused(f"start: /{MARK}(/"),
}


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_re_does_not_see_the_patterns_of_a_grammar_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, front_end: str
) -> None:
    parser = import_module("re._parser" if hasattr(re, "_parser") else "sre_parse")

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(pattern: Any, *rest: Any) -> Any:
            assert MARK not in str(pattern), "re sees the pattern of a client"
            return function(pattern, *rest)

        return call

    monkeypatch.setattr(re, "_compile", watched(re._compile))  # type: ignore[attr-defined]
    monkeypatch.setattr(parser, "parse", watched(parser.parse))
    FRONT_ENDS[front_end]()
