"""Grammars, schemas, patterns and texts that try to cost seconds, gigabytes or the process."""

from __future__ import annotations

import functools
import itertools
import random
import resource
import string
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine_sampler import Record, SamplingParams, Tokenizer
from engine_sampler.grammar.compiled import prepare
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.limits import Limits

from ..engines import EOS, TOKENIZER, VOCAB, alone, make_scheduler, outcome, run_to_end

MEGABYTES = 256
LIMITS = Limits(memory=64 << 20)
PIECE = 8
"""The bytes between two masks."""
DEEP = 100_000

pytestmark = pytest.mark.skipif(native.load_library() is None, reason="the native library is missing")


class Case(NamedTuple):
    """A grammar with a text under it; or, with `refused`, words of the error that it raises."""

    name: str
    read: Callable[[], Grammar]
    text: str = ""
    refused: str = ""
    complete: bool = True
    """Whether the text is in the language, or only the beginning of one that is."""


def regex(name: str, pattern: str, text: str = "", refused: str = "", complete: bool = True) -> Case:
    return Case(f"regex: {name}", lambda: Grammar.from_regex(pattern), text, refused, complete)


def lark(name: str, grammar: str, text: str = "", refused: str = "", complete: bool = True) -> Case:
    return Case(f"lark: {name}", lambda: Grammar.from_lark(grammar), text, refused, complete)


def gbnf(name: str, grammar: str, text: str = "", refused: str = "", complete: bool = True) -> Case:
    return Case(f"gbnf: {name}", lambda: Grammar.from_gbnf(grammar), text, refused, complete)


def contextual(name: str, grammar: str, text: str = "", refused: str = "", complete: bool = True) -> Case:
    read = functools.partial(Grammar.from_lark, grammar, lexer="contextual")
    return Case(f"contextual: {name}", read, text, refused, complete)


def schema(name: str, given: Any, text: str = "", refused: str = "", complete: bool = True) -> Case:
    return Case(f"schema: {name}", lambda: Grammar.from_json_schema(given), text, refused, complete)


def regexes() -> Iterator[Case]:
    mixed = "".join(random.Random(1).choices("xya", k=1500))
    yield regex("nested counts", "((a{1000}){1000})", "a" * 3000, complete=False)
    yield regex("deeper counts", "((((a{30}){30}){30}){30}){30}", "a" * 3000, complete=False)
    yield regex("nested ranges", "((a{1,1000}){1,1000}){1,1000}", "a" * 3000)
    yield regex("more nested ranges", "(((a{3,70}b?){2,80}|c){4,60}){5,50}z", "aaab" * 700, complete=False)
    yield regex("a count without bounds", "a{1000000000}", "a" * 300, complete=False)
    for pattern in ("(a|a)*", "((a|a)*)*", "(a|aa)+", "(a*)*", "((a?)*)*", "(a*){1000}", "(a+)+$"):
        yield regex(pattern, pattern, "a" * 1500)
    yield regex("(a*)*b", "(a*)*b", "a" * 1500, complete=False)
    yield regex("optional letters", "(a?){1000}a{1000}", "a" * 1500)
    yield regex("a letter far from the end", ".*x.{1000}", mixed[:499] + "x" * 1001)
    yield regex("letters far apart", ".{0,100000}x.{0,100000}y", mixed + "xy")
    yield regex("many beginnings", "(.*a){20}", "a" * 1500)
    yield regex(
        "many pairs", "|".join(f".*{a}.*{b}" for a in string.ascii_lowercase for b in "xyz"), "az" * 300
    )
    yield regex(
        "many primes", "|".join(f"(a{{{p}}})*b{p}" for p in (2, 3, 5, 7, 11, 13, 17, 19)), "a" * 1500 + "b2"
    )
    yield regex(
        "all of the alphabet",
        "".join(f"(?=.*{c})" for c in string.ascii_lowercase) + ".*",
        "",
        "limit of work",
    )
    yield regex("nested groups", "(" * 10_000 + "a" + ")" * 10_000, "", "nested more than")
    yield regex("a hundred thousand groups", "(" * DEEP + "a" + ")" * DEEP, "", "nested more than")
    yield regex("a megabyte", "a?" * 500_000, "", "characters, more than")
    words = "|".join(f"{i * i}x" for i in range(20_000))
    yield regex("twenty thousand words, and more", f"({words})[a-z]+[0-9]{{2,5}}", "399960001xabc12")


def larks() -> Iterator[Case]:
    yield lark("left recursion", 'start: start "a" | "a"', "a" * 10_000)
    yield lark("right recursion", 'start: "a" start | "a"', "a" * 10_000)
    yield lark("hidden left recursion", 'start: empty start "a" | "a"\nempty: "b"?', "b" * 100 + "a" * 500)
    yield lark("hidden right recursion", 'start: "a" start empty |\nempty: "b"?', "a" * 800)
    yield lark("ambiguity", 'start: start start | "a"', "a" * 400)
    yield lark("more ambiguity", 'start: start start start | start start | "a"', "a" * 150)
    yield lark("units in a circle", 'start: x\nx: y | "a"\ny: x | start', "a")
    yield lark("many empty rules", 'start: e e e e e e e e "a"\ne: | e e | "b"', "b" * 200 + "a")
    rules = "\n".join(f'r{i}: r{(i * 7 + 1) % 40} r{(i * 11 + 3) % 40} | "a" |' for i in range(40))
    yield lark("rules of each other", f"{rules}\nstart: r0", "a" * 20)
    yield lark("a zero-width terminal", 'start: A "a"\nA: /a*/', "a" * 1500)
    yield lark("zero-width terminals", "start: (A | B)*\nA: /a*/\nB: /b*/", "ab" * 500)
    yield lark("zero-width ignored", 'start: "a"*\n%ignore / */\n%ignore /( *\\n*)*/', " a \n" * 300)
    yield lark("palindromes", 'start: "a" start "a" | "b" start "b" |', "ab" * 500, complete=False)
    yield lark("deep input", 'start: "(" start ")" | "x"', "(" * DEEP + "x" + ")" * DEEP)
    yield lark("nested counts", 'start: (("a"~1000)~1000)~1000', "a" * 1500, complete=False)
    yield lark("many optional parts", "start: " + " ".join(f'"{i}."?' for i in range(300)), "0.7.299.")
    yield lark("many small choices", "start: " + '("a"|"b"|"c")? ' * 200, "abc" * 60)
    doubled = "\n".join(f"t{i}{{x}}: t{i - 1}{{x}} t{i - 1}{{x}}" for i in range(1, 60))
    yield lark(
        "templates that double", f'start: t59{{"a"}}\n{doubled}\nt0{{x}}: x', "a" * 300, complete=False
    )
    yield lark("endless templates", 'start: t{"a"}\nt{x}: x | t{y{x}}\ny{x}: x "b"', "", "templates")
    terminals = "\n".join(f"T{i}: T{i - 1} T{i - 1}" for i in range(1, 60))
    yield lark("terminals that double", f'start: T59\n{terminals}\nT0: "a"', "", "terminals grow")
    yield lark("deep text", "start: " + "(" * DEEP + '"a"' + ")" * DEEP, "", "deep")
    yield lark("many words", "start: " + '"a" ' * 400_000, "", "more than|longer than")
    words = " | ".join(f'"{i * i}x"' for i in range(20_000))
    yield lark("twenty thousand words", f"start: {words}", "399960001x")
    yield contextual("twenty thousand words", f"start: {words}", "", "Limits.reading")
    rules = "\n".join(
        f"r{i}: \"{i}\" r{i + 1} | r{i * 7 % 5000} '!' |".replace("'", '"') for i in range(5000)
    )
    yield lark("five thousand rules", f"start: r0\n{rules}\nr5000:", "0123456")
    rules = "\n".join(f'r{i}: "a{i}" "b"' for i in range(10_000))
    yield lark("ten thousand rules", f"start: {' | '.join(f'r{i}' for i in range(10_000))}\n{rules}", "a77b")
    named = "\n".join(f'W{i}: "{i * i}x"' for i in range(20_000))
    names = " | ".join(f"W{i}" for i in range(20_000))
    yield lark("twenty thousand named terminals", f"start: {names}\n{named}", "399960001x")
    items = " | ".join(f'W{i} ";"' for i in range(20_000))
    yield lark("twenty thousand items of a rule", f"start: item+\nitem: {items}\n{named}", "1x;399960001x;")
    yield lark("twenty thousand items of a terminal", f"start: ITEM+\nITEM: {items}\n{named}", "1x;4x;")
    yield lark("many line ends", 'start: "a"' + "\n" * 300_000 + "%ignore /b/", "bab")
    yield lark("a long comment", "//" + "x" * 1_900_000 + '\nstart: "a"', "", "longer than")
    yield lark("deep JSON", "start: %json " + "[" * DEEP, "", "deep|JSON")
    yield lark("an endless text", 'start: "a" start', "", "no text|empty|ends")


def look_aheads() -> Iterator[Case]:
    """Look-aheads in terminals that a lexer tries in order: the following text decides which one is read."""
    letters = string.ascii_lowercase
    yield contextual("counted", "start: A+ B?\nA: /a(?!.{0,1000}x)/\nB: /[b-z]+/", "a" * 200 + "bcd")
    either = "start: (A | B)+\nB.-1: /[a-z]/\nA: "
    yield contextual("far", either + "/[ab](?!.{500}x)/", "ab" * 150, "limit of work")
    yield contextual("far apart", either + "/[ab]+(?!.*a.{20}b)/", "abbab" * 60, "limit of work")
    every = "".join(f"(?!.*{letter})" for letter in letters[:20])
    yield contextual("all of the alphabet", f"{either}/{every}[a-z]/", "uvwabcdef" * 20)
    several = "|".join(f"[a-z]{{1,{i + 1}}}(?!{letters[i]})" for i in range(20))
    yield contextual("many at one place", f"{either}/{several}/", "abcxyz" * 30, "look-aheads at once")
    names = [f"T{i}" for i in range(60)]
    many = "\n".join(f"{name}.{i}: /[a-z]+(?!x{letters[i % 26]}{i})/" for i, name in enumerate(names))
    yield contextual(
        "many terminals", f"start: ({' | '.join(names)})+\n{many}", "abcxyz" * 30, "limit of work"
    )
    words = "\n".join(f"{name}: /word{i}(?![a-z0-9])/" for i, name in enumerate(names))
    parts = f"start: (NAME | {' | '.join(names)})+\n{words}\nNAME.-1: /[a-z0-9]+/\n%ignore /_+(?!-)/"
    yield contextual("many words", parts, "word1_word12_word59_other_word1x" * 20)


def schemas() -> Iterator[Case]:
    nested: Any = {"type": "integer"}
    for _ in range(300):
        nested = {"type": "array", "items": nested}
    yield schema("nested arrays", nested, "[" * 300 + "1" + "]" * 300)
    yield schema("deep input", {}, "[" * DEEP + "]" * DEEP)
    deep: Any = 1
    for _ in range(DEEP):
        deep = {"not": deep}
    yield schema("nested too deep", deep, "", "deep")
    yield schema("deep text", '{"not":' * DEEP + "{}" + "}" * DEEP, "", "deep")
    yield schema("a deep constant", '{"const":' + "[" * DEEP + "]" * DEEP + "}", "", "deep")
    yield schema("a huge enum", {"enum": [f"value {i}" for i in range(20_000)]}, '"value 19999"')
    objects = [{f"k{j}": f"{i}-{j}" if j % 2 else i * j for j in range(20)} for i in range(2000)]
    yield schema("an enum of objects", {"enum": objects}, '{"k2": 14, "k1": "7-1", "k5', complete=False)
    yield schema("all but a huge enum", {"not": {"enum": [f"v{i}" for i in range(10_000)]}}, '"v1x"')
    keys = ",".join(f'"key{i}":{{"type":"string","maxLength":{i}}}' for i in range(22_000))
    text = '{"properties":{' + keys + "}}"
    assert len(text) > 1_000_000
    yield schema("a megabyte", text, "", "kinds of values")
    yield schema("longer than any", " " * 3_000_000 + "{}", "", "characters, the limit")
    names = {f"k{i}": {"type": "integer"} for i in range(2000)}
    every = {"properties": names, "required": [*names], "additionalProperties": False}
    yield schema("many required keys", every, '{"k7": 1, "k9"', complete=False)
    double = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)} | {
        "a60": {"const": 1}
    }
    yield schema("references that double", {"$ref": "#/$defs/a0", "$defs": double}, "1")
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    yield schema("references in a circle", {"$ref": "#/$defs/a", "$defs": circle}, "", "leads back to itself")
    ways = [{"anyOf": [{"required": [f"{a}{i}"]} for a in "abc"]} for i in range(14)]
    yield schema("products of ways", {"allOf": ways}, '{"a0": 1, "b1"', complete=False)
    tagged = [{"properties": {"t": {"const": i}}, "required": ["t"]} for i in range(1000)]
    yield schema("one of a thousand", {"oneOf": tagged}, "", "more than")
    either: Any = {"type": "string"}
    for i in range(40):
        either = {"oneOf": [either, {"type": "object", "required": [f"k{i}"]}]}
    yield schema("one of, within one of", either, "", "more than")
    patterns = {f"^.*{c}.{{10}}$": {"minimum": i} for i, c in enumerate(string.ascii_lowercase)}
    yield schema("patterns of keys", {"patternProperties": patterns}, "", "more than")
    yield schema("a count of residues", {"type": "integer", "multipleOf": 99_999_999_977}, "", "residues")
    yield schema("many digits", f'{{"type": "number", "minimum": {"9" * 5000}}}', "", "digits")
    counted = {"type": "array", "items": {"type": "string", "maxLength": 10**6}, "maxItems": 10**6}
    yield schema("large counts", counted, '["a", "b"]')
    yield schema(
        "a pattern of counts",
        {"type": "string", "pattern": "^((a{100}){100}){100}$"},
        '"aaaa',
        complete=False,
    )
    forbidden = {"not": {"required": [f"k{i}" for i in range(200)]}}
    yield schema("not all of the keys", forbidden, '{"k1": 1}')


def tags() -> Iterator[Case]:
    triggers = [f"<tool{i}>" for i in range(300)]
    given = {
        "structures": [{"begin": one, "schema": True, "end": "!"} for one in triggers],
        "triggers": triggers,
    }
    yield Case("tag: many triggers", lambda: Grammar.from_structural_tag(given), "<tool7>1! x")
    stops = {"type": "any_text", "excludes": ["a" * 5000 + "b"]}
    yield Case("tag: a long exclusion", lambda: Grammar.from_structural_tag({"format": stops}), "a" * 6000)
    for name, ends in {"an endless end": ["ab" * 900_000], "endless ends": _different(900, 1000)}.items():
        until = {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ends}
        read = functools.partial(Grammar.from_structural_tag, {"format": until})
        yield Case(f"tag: {name}", read, refused="transitions")


def _different(count: int, length: int) -> list[str]:
    return [f"{i:0{length}b}"[::-1] for i in range(count)]


def gbnfs() -> Iterator[Case]:
    letters = string.ascii_lowercase
    yield gbnf("nested counts", 'root ::= ((("a"{1,100} "b"){1,100} "c"){1,100} "d"){1,100}', "aabcd")
    yield gbnf("nested exact counts", 'root ::= (("a"{1000}){1000}){1000}', "a" * 900, complete=False)
    yield gbnf("a long count", "root ::= [a-z]{0,1000000}", letters * 20)
    yield gbnf("a longer count", 'root ::= "a"{1000001}', "", "a count is above")
    yield gbnf("a count of many digits", 'root ::= "a"{' + "9" * 5000 + "}", "", "number is longer")
    yield gbnf("stars of stars", "root ::= " + "(" * 48 + '"a"*' + ")*" * 48, "a" * 800)
    yield gbnf("counts of counts", "root ::= [a-c]" + "{2,3}" * 40, "abc" * 200, complete=False)
    yield gbnf("many operators", 'root ::= "a"' + "*" * 10_000, "", "nested more than 50")
    yield gbnf("deep text", "root ::= " + "(" * DEEP + '"a"' + ")" * DEEP, "", "nested more than")
    yield gbnf("deep groups", "root ::= " + "(" * 199 + '"a"' + ")" * 199, "", "nested more than 50")
    nested = '("a" | "b" ' * 48 + ")" * 48
    yield gbnf("nested choices", f"root ::= {nested}", "bb", complete=False)
    yield gbnf("many choices", "root ::= " + " | ".join(f'"w{i}"' for i in range(5000)), "w4999")
    chars = " | ".join(f"[^{chr(200 + i)}]" for i in range(500))
    yield gbnf("many classes", f"root ::= {chars}", "é")
    yield gbnf("optional parts", "root ::= " + "x? " * 2000 + '\nx ::= "a" | "b" x', "ab" * 30 + "a")
    yield gbnf("ambiguity", 'root ::= root root root | root root | "a" | ""', "a" * 60)
    yield gbnf("ambiguous counts", 'root ::= (("a" | "aa"){1,64} | "aaa"){1,64}', "a" * 60)
    yield gbnf("names in a circle", 'root ::= a\na ::= b | "x"\nb ::= root | a', "x")
    yield gbnf("nothing but a circle", "root ::= a\na ::= b\nb ::= a", "", "no text at all")
    yield gbnf("empty parts", 'root ::= (a? b)* "!"\na ::= "x"?\nb ::= a a | ""', "xxx!")
    yield gbnf("counted empty parts", 'root ::= ((a?){1,1000}){1,1000} "!"\na ::= "x"?', "xxx!")
    yield gbnf("hidden left recursion", 'root ::= e e root "a" | "a"\ne ::= "b"? | e e', "baa")
    yield gbnf("hidden right recursion", 'root ::= "a" root e e | "a"\ne ::= "b"? | e e', "a" * 100)
    names = "\n".join(f"n{i} ::= n{i + 1}" for i in range(3000))
    yield gbnf("a chain of names", f'root ::= n0\n{names}\nn3000 ::= "a"', "a")
    doubled = "\n".join(f"n{i} ::= n{i + 1} n{i + 1}" for i in range(60))
    yield gbnf("rules that double", f'root ::= n0 "!"\n{doubled}\nn60 ::= "a"?', "a" * 100 + "!")
    ways = "\n".join(f'n{i} ::= n{i + 1} "a" | n{i + 1} "b" | n{i + 1}' for i in range(200))
    yield gbnf("choices that double", f'root ::= n0\n{ways}\nn200 ::= "a"', "abab")
    dense = "\n".join(
        f"r{i} ::= " + " | ".join(f"r{(i * 7 + j * 13) % 90}" for j in range(20)) for i in range(90)
    )
    yield gbnf("rules of each other", f'root ::= r0 | "x"\n{dense}', "x")
    yield gbnf("missing rules", "root ::= " + " ".join(f"u{i}" for i in range(20_000)), "", "no rule 'u0'")
    unused = "\n".join(f'u{i} ::= "x{i}" u{i // 2}' for i in range(2000))
    yield gbnf("unused rules", f'root ::= "a"\n{unused}', "a")
    again = "\n".join("aA"[i & 1] + "aA"[i >> 1 & 1] + "-_"[i >> 2 & 1] * (i % 50) for i in range(1, 3000))
    yield gbnf("similar names", 'root ::= "a"\n' + again.replace("\n", ' ::= "b"\n') + ' ::= "b"', "a")
    yield gbnf(
        "a long name", "root ::= " + "x" * 260_000 + "\n" + "x" * 260_000 + ' ::= "a"', "", "a word is"
    )
    yield gbnf("comments", 'root ::= "a"\n' + "# c\n" * 100_000 + '  "b"', "ab")
    yield gbnf("line ends", 'root ::= "a"' + "\n" * 500_000 + 'b ::= "x"', "a")
    yield gbnf("returns", "\r" * 500_000 + 'root ::= "a"', "a")
    yield gbnf("blanks in a group", "root ::= (" + " \n" * 200_000 + '"a")', "a")
    yield gbnf("rules named like macros", "root ::= " + 'Token("a") ' * 2000 + '\nToken ::= "x"?', "a" * 2000)
    yield gbnf("look-aheads", "root ::= " + "(= [a-z]) " * 10_000 + '"a"', "a")
    yield gbnf(
        "a huge class", "root ::= [" + "".join(chr(0x4E00 + 2 * i) for i in range(9000)) + "]+", "一丄" * 9
    )
    code = "".join(f"\\U{40 * i:08x}-\\U{40 * i + 9:08x}" for i in range(3, 1000))
    yield gbnf("ranges of characters", f"root ::= [^{code}]{{1,1000}}", "é" * 50)
    yield gbnf("a class that is not closed", "root ::= [" + "a" * 200_000, "", "at the end")
    yield gbnf("a literal that is not closed", 'root ::= "' + "\\\\" * 100_000, "", "at the end")
    yield gbnf("half a pair", 'root ::= "\ud800"', "", "half of a surrogate pair")
    yield gbnf("zero bytes", 'root ::= "a\0b" \0root\0', "", "end of the line")
    yield gbnf("loops of classes", "root ::= ([a-m]* [f-z]* [a-z]*)* [0-9]", letters * 10 + "7")
    yield gbnf("many token ids", "root ::= <[" + ",".join(map(str, range(60_000))) + "]>", "", "a word is")
    lists = " ".join(f"<[{i}-{i + 9}]>" for i in range(40_000))
    yield gbnf("many lists of token ids", f"root ::= {lists}", "", "more than 300000 token ids")
    yield gbnf("empty groups", "root ::= " + "()" * 400_000, "", "Limits.reading")
    yield gbnf("unknown token ids", "root ::= <[0-299999]>", "", "the vocabulary has")
    many = "\n".join(f'r{i} ::= "w{i}" [a-z]+' for i in range(20_000))
    yield gbnf(
        "twenty thousand rules", f"root ::= {' | '.join(f'r{i}' for i in range(20_000))}\n{many}", "w7ab"
    )
    yield gbnf("palindromes", 'root ::= [a-c]* p [a-c]*\np ::= "a" p "a" | "b" p "b" | ""', "abc" * 30)
    signs = " | ".join(f'root "{sign}" root' for sign in letters)
    yield gbnf("operators", f'root ::= {signs} | "1"', "1a1b1c1")


CASES = [*regexes(), *larks(), *look_aheads(), *schemas(), *tags(), *gbnfs()]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The bytes, EOS, and some longer tokens."""
    words = ["aa", "aaaa", "((", "))", "[[", "]]", '"v', '":', "true", "abc"]
    pieces = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in words)]
    tokenizer = Tokenizer([*pieces, b"<eos>"], [len(pieces)])
    prepare(tokenizer)
    return tokenizer


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_read_or_refused_within_the_limits(case: Case, tokenizer: Tokenizer) -> None:
    before = _peak_megabytes()
    if case.refused:
        with pytest.raises(GrammarError, match=case.refused):
            _read(case, tokenizer)
    else:
        assert _read(case, tokenizer) is case.complete
    assert _peak_megabytes() - before < MEGABYTES


def _peak_megabytes() -> float:
    """The peak memory of the process, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _read(case: Case, tokenizer: Tokenizer) -> bool:
    """Read the text of a case, with a mask before each piece; returns whether it is in the language."""
    matcher = case.read().compile(tokenizer, limits=LIMITS).matcher()
    bitmask = np.zeros((1, (len(tokenizer) + 31) // 32), np.int32)
    data = case.text.encode()
    piece = PIECE if len(data) < 5000 else 512
    for at in range(0, len(data), piece):
        matcher.fill_bitmask(bitmask, 0)
        assert matcher.accept_bytes(data[at : at + piece]), f"refused at byte {at}"
    matcher.fill_bitmask(bitmask, 0)
    return bool(matcher.is_accepting())


def test_the_text_of_a_hostile_choice_is_refused() -> None:
    with pytest.raises(GrammarLimitError, match="limit is"):
        Grammar.from_choices(["x" * 3_000_000])
    with pytest.raises(GrammarLimitError, match="nested too deep"):
        Grammar.from_structural_tag("[" * DEEP)


def test_a_grammar_that_exceeds_a_limit_ends_only_its_request() -> None:
    """No token has the letter z: the text continues with a."""
    pairs = itertools.product(range(20, 40), repeat=2)
    pattern = "|".join(f"(a{{{i}}})*(a{{{k}}})*z" for i, k in pairs)
    slow = Grammar.from_regex(pattern).compile(TOKENIZER, limits=Limits(work=20_000))
    sound = Grammar.from_regex("[ab]*").compile(TOKENIZER)
    scheduler = make_scheduler()
    params = SamplingParams(seed=5, max_tokens=30)
    scheduler.add(params, request_id="slow", grammar=slow)
    scheduler.add(params, request_id="sound", grammar=sound)
    scheduler.add(params, request_id="free")
    run_to_end(scheduler)
    record = scheduler.record("slow")
    assert record.finish_reason == "error"
    assert "limit of work" in str(record.error)
    assert outcome(scheduler.record("sound")) == outcome(alone(params, grammar=sound))
    assert outcome(scheduler.record("free")) == outcome(alone(params))


def test_a_dead_end_of_the_vocabulary_ends_only_its_request() -> None:
    """The grammar continues with a letter that no token has."""
    dead = Grammar.from_regex("ab?z").compile(TOKENIZER)
    scheduler = make_scheduler()
    params = SamplingParams(seed=6, max_tokens=10)
    scheduler.add(params, request_id="dead", grammar=dead)
    scheduler.add(params, request_id="free")
    run_to_end(scheduler)
    record: Record = scheduler.record("dead")
    assert record.finish_reason == "error"
    assert "leaves no token" in str(record.error)
    assert not {EOS, *range(10, VOCAB)} & set(record.token_ids)
    assert outcome(scheduler.record("free")) == outcome(alone(params))
