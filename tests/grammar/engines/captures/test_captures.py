"""Captures of texts and of tokens: which rules are reported, under which names, and where they stand."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import lark
import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError

LEXERS = ("dynamic_complete", "contextual")

ASSIGNMENTS = """
start: item ("," item)*
item[capture]: NAME "=" value
value[capture="v"]: NUMBER | "(" item ")"
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore " "
"""

BYTES = [bytes((byte,)) for byte in range(256)]
EOS, TOOL, AB = 256, 257, 258
TOKENIZER = Tokenizer([*BYTES, b"</s>", b"<tool>", b"ab"], eos_token_ids=[EOS], special_token_ids=[TOOL])


def texts(grammar: str, text: str, **options: Any) -> dict[str, list[str]]:
    found = Grammar.from_lark(grammar, **options).captures(text)
    return {name: [one.text for one in captures] for name, captures in found.items()}


@pytest.mark.parametrize("lexer", LEXERS)
def test_each_match_of_a_rule_is_reported_under_its_name(lexer: Any) -> None:
    found = texts(ASSIGNMENTS, "a=1, bc = (d=(e=22))", lexer=lexer)
    assert found == {
        "item": ["a=1", "bc = (d=(e=22))", "d=(e=22)", "e=22"],
        "v": ["1", "(d=(e=22))", "(e=22)", "22"],
    }


@pytest.mark.parametrize("lexer", LEXERS)
def test_spans_are_in_bytes_and_leave_out_what_is_ignored_around(lexer: Any) -> None:
    grammar = 'start: word*\nword[capture]: /[^ ]+/\n%ignore " "'
    found = Grammar.from_lark(grammar, lexer=lexer).captures("  né  ab ")["word"]
    assert [(one.start, one.end, one.data, one.tokens) for one in found] == [
        (2, 5, "né".encode(), None),
        (7, 9, b"ab", None),
    ]


@pytest.mark.parametrize("lexer", LEXERS)
def test_the_beginning_of_a_text_has_the_captures_that_have_ended(lexer: Any) -> None:
    for text in ("a=1, b=", "a=1, b=(c", "a=1, ", "a=1,b"):
        assert texts(ASSIGNMENTS, text, lexer=lexer) == {"item": ["a=1"], "v": ["1"]}
    assert texts(ASSIGNMENTS, "a=(b=3", lexer=lexer) == {"item": [], "v": []}
    assert texts(ASSIGNMENTS, "", lexer=lexer) == {"item": [], "v": []}


@pytest.mark.parametrize("lexer", LEXERS)
def test_another_text_is_refused(lexer: Any) -> None:
    grammar = Grammar.from_lark(ASSIGNMENTS, lexer=lexer)
    with pytest.raises(GrammarError, match="the text leaves the grammar behind its first 4 bytes"):
        grammar.captures("a=1,=")


def test_a_grammar_without_captures_has_none() -> None:
    assert Grammar.from_regex("a+").captures("anything") == {}
    assert Grammar.from_choices(["a"]).compile(TOKENIZER).captures([7]) == {}


def test_recursion_at_either_end_nests() -> None:
    assert texts('start: l\nl[capture]: "x" l | "x"', "xxx") == {"l": ["xxx", "xx", "x"]}
    assert texts('start: l\nl[capture]: l "x" | "x"', "xxx") == {"l": ["xxx", "xx", "x"]}


def test_an_empty_match_stands_behind_what_precedes_it() -> None:
    grammar = Grammar.from_lark('start: "a" e "b"\ne[capture]: "x"?\n%ignore " "')
    (found,) = grammar.captures("a  b")["e"]
    assert found[:3] == (b"", 1, 1)


def test_of_several_readings_the_one_with_the_longest_first_parts_counts() -> None:
    split = "start: a b\na[capture]: /x+y?/\nb[capture]: /y?z/"
    assert texts(split, "xxyz") == {"a": ["xxy"], "b": ["z"]}
    free = 'start: "<" t ">" rest\nt[capture]: T\nrest: T\nT: /.*/'
    assert texts(free, "<a>b>c") == {"t": ["a>b"]}
    rules = 'start: p p\np[capture]: "a" "a"? "a"?'
    assert texts(rules, "aaaa") == {"p": ["aaa", "a"]}


def test_a_rule_that_may_consist_of_itself_is_reported_once() -> None:
    assert texts('start: a\na[capture]: b | "x"\nb[capture]: a', "x")["a"] == ["x"]


def test_a_lazy_rule_ends_at_its_trigger() -> None:
    grammar = 'start: head "f"\nhead[lazy, capture="free"]: /.*/ "<call>"'
    assert texts(grammar, "a<b <call>f") == {"free": ["a<b <call>"]}


def test_look_aheads_and_terminals_that_are_empty_under_them_count() -> None:
    grammar = "start: a N b\na[capture]: /x+(?!z)/\nN: /(?!z)/\nb[capture]: /y*z?/"
    assert texts(grammar, "xxyz") == {"a": ["xx"], "b": ["yz"]}


def test_gbnf_captures_as_well() -> None:
    grammar = Grammar.from_gbnf('root[capture="all"] ::= The-word " " The-word\nThe-word[capture] ::= [a-z]+')
    found = grammar.captures("ab c")
    assert [one.text for one in found["all"]] == ["ab c"]
    assert [one.text for one in found["The-word"]] == ["ab", "c"]


def test_a_grammar_within_a_structural_tag_captures() -> None:
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "sequence",
            "elements": [
                {"type": "const_string", "value": "in: "},
                {"type": "grammar", "grammar": 'start: w ("," w)*\nw[capture]: /[a-z]+/'},
            ],
        },
    }
    found = Grammar.from_structural_tag(tag).captures("in: a,bc")
    assert [(one.text, one.start) for one in found["w"]] == [("a", 4), ("bc", 6)]


def test_ignored_text_that_is_part_of_rules_is_none_of_them() -> None:
    comments = "start: word+\nword[capture]: /[a-z]+/\n%ignore /#.*\\n/\n%ignore /;.*/"
    grammar = Grammar.from_lark(comments)
    assert grammar.program.skipped
    assert [one[:3] for one in grammar.captures("a#b\nc;d")["word"]] == [(b"a", 0, 1), (b"c", 4, 5)]
    element = {"type": "grammar", "grammar": 'start: w w\nw[capture]: /[a-z]+/\n%ignore " "'}
    tag = {"type": "structural_tag", "format": element}
    found = Grammar.from_structural_tag(tag).captures(" ab c ")
    assert [one[:3] for one in found["w"]] == [(b"ab", 1, 3), (b"c", 4, 5)]


def test_bounds_and_sampling_parameters_of_rules_leave_captures_as_they_are() -> None:
    plain = 'start: w ("-" w)*\nw[capture]: part "." part\npart[capture]: /[a-z]+/'
    bounded = plain.replace("part[capture]", "part[capture, max_tokens=9]")
    warm = plain.replace("w[capture]", "w[capture, temperature=0.5]")
    expected = {"w": ["ab.c", "d.ef"], "part": ["ab", "c", "d", "ef"]}
    assert texts(plain, "ab.c-d.ef") == texts(bounded, "ab.c-d.ef") == texts(warm, "ab.c-d.ef") == expected


@pytest.mark.parametrize("name", ["", "a" * 101, "\\n", "\\x00"])
def test_names_must_be_short_and_printable(name: str) -> None:
    with pytest.raises(
        GrammarError, match=r"capture=.* is not allowed: 1 to 100 characters .*line 2, column 11"
    ):
        Grammar.from_lark(f'start: r\nr[capture="{name}"]: "a"')


def test_grammars_that_differ_in_captures_are_different() -> None:
    plain, one, other = (
        Grammar.from_lark(f'start: r\nr{a}: "a"') for a in ("", "[capture]", '[capture="b"]')
    )
    assert len({plain, one, other}) == 3
    assert plain.compile(TOKENIZER).captures([97]) == {}
    assert one.compile(TOKENIZER).captures([97]).keys() == {"r"}


def test_saved_and_pickled_grammars_capture(tmp_path: Path) -> None:
    grammar = Grammar.from_lark(ASSIGNMENTS)
    grammar.save(tmp_path / "a.grammar")
    for copy in (Grammar.load(tmp_path / "a.grammar"), pickle.loads(pickle.dumps(grammar))):
        assert copy.captures("a=(b=1)") == grammar.captures("a=(b=1)")


# --- Tokens ---

TOOLS = 'start: call+\ncall[capture]: <tool> NAME "(" arg ")"\narg[capture]: /[a-z ]*/\nNAME: /[a-z]+/'


def test_tokens_are_counted_with_special_ones_which_are_no_text() -> None:
    tokens = [TOOL, *b"f(", AB, *b"c)", TOOL, *b"g()", EOS, 7]
    found = Grammar.from_lark(TOOLS).compile(TOKENIZER).captures(tokens)
    assert [(one.text, one.start, one.end, one.tokens) for one in found["call"]] == [
        ("f(abc)", 0, 6, (0, 6)),
        ("g()", 6, 9, (6, 10)),
    ]
    assert [(one.text, one.start, one.tokens) for one in found["arg"]] == [
        ("abc", 2, (3, 5)),
        ("", 8, (9, 9)),
    ]


def test_a_token_may_be_part_of_several_captures() -> None:
    grammar = Grammar.from_lark("start: a b\na[capture]: /[^b]+/\nb[capture]: /b.*/").compile(TOKENIZER)
    found = grammar.captures([120, AB, 121])
    assert [found[name][0].tokens for name in "ab"] == [(0, 2), (1, 3)]


def test_tokens_before_the_text_only_move_it() -> None:
    compiled = Grammar.from_lark(TOOLS).compile(TOKENIZER)
    tokens = [TOOL, *b"f(x)"]
    (alone,), (moved,) = (
        compiled.captures(tokens)["call"],
        compiled.captures([AB, TOOL, *tokens], begin=2)["call"],
    )
    assert (moved.data, moved.start, moved.end) == (b"f(x)", alone.start + 2, alone.end + 2)
    assert (alone.tokens, moved.tokens) == ((0, 5), (2, 7))


def test_an_ordinary_token_that_the_grammar_names_is_that_token() -> None:
    tokenizer = Tokenizer([*BYTES, b"</s>", b"<t>"], eos_token_ids=[EOS])
    grammar = Grammar.from_lark("start: (x | y)*\nx[capture]: <t>\ny[capture]: /[<>t]/").compile(tokenizer)
    found = grammar.captures([257, *b"<t>"])
    assert [one.tokens for one in found["x"]] == [(0, 1)]
    assert [one.text for one in found["y"]] == ["<", "t", ">"]


def test_an_id_that_is_no_token_is_refused() -> None:
    compiled = Grammar.from_lark(TOOLS).compile(TOKENIZER)
    with pytest.raises(GrammarError, match="token_ids: 999 is not allowed: 0 to 258"):
        compiled.captures([999])


# --- Lark's own trees ---

JSON = r"""
start: value
value: object | array | string | number | "true" -> yes | "false" -> no | "null" -> null
object CAPTURE: "{" [pair ("," pair)*] "}"
pair CAPTURE: string ":" value
array CAPTURE: "[" [value ("," value)*] "]"
string CAPTURE: /"([^"\\\n]|\\.)*"/
number CAPTURE: /-?[0-9]+(\.[0-9]+)?/
%ignore /[ \n]+/
"""
SUMS = """
start: sum
sum CAPTURE: sum "+" product | product
product CAPTURE: product "*" power | power
power CAPTURE: atom "^" power | atom
atom CAPTURE: /[0-9]+/ | "(" sum ")"
%ignore " "
"""
CASES = {
    "json": (
        JSON,
        [
            json.dumps(value, indent=indent, ensure_ascii=False)
            for value in (
                [],
                {"a": [1, -2.5, {}], "ü": None},
                [[["x"], {"y": {"z": [True]}}], '\\"\n'],
                "é",
                7,
            )
            for indent in (None, 1)
        ],
    ),
    "sums": (SUMS, ["1", "1+2*3", "(1 + 2) * 3 ^ 4 ^ (5)", "((((12))))+1*(2+3*4)", "1^2^3*4*5+6+7"]),
}


@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize("case", CASES)
def test_captures_are_the_nodes_of_larks_trees(case: str, lexer: Any) -> None:
    text, inputs = CASES[case]
    ours = Grammar.from_lark(text.replace(" CAPTURE", "[capture]"), lexer=lexer)
    options: Any = {"parser": "earley"} if lexer == "dynamic_complete" else {"parser": "lalr"}
    theirs = lark.Lark(text.replace(" CAPTURE", ""), lexer=lexer, propagate_positions=True, **options)
    for sentence in inputs:
        spans = sorted(
            (one.start, one.end, name)
            for name, captures in ours.captures(sentence).items()
            for one in captures
        )
        tree = theirs.parse(sentence)
        nodes = [node for node in tree.iter_subtrees() if node.data in ours.captures(sentence)]
        offset = [len(sentence[:place].encode()) for place in range(len(sentence) + 1)]
        assert spans == sorted(
            (offset[node.meta.start_pos], offset[node.meta.end_pos], str(node.data)) for node in nodes
        )


# --- Hostile grammars and texts ---

HOSTILE = {
    "every split of a text": ('start: a\na[capture]: a a | "x"', "x" * 100),
    "a text within a text within a text": ('start: l\nl[capture]: "x" l | "x"', "x" * 6_000),
    "the same word from both ends": ('start: p\np[capture]: "x" p "x" | "x"', "x" * 399),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_work_and_memory_are_bounded(case: str) -> None:
    grammar, text = HOSTILE[case]
    with pytest.raises(GrammarLimitError, match=r"more than (steps=)?20000"):
        Grammar.from_lark(grammar).captures(text, steps=20_000)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("case", HOSTILE)
def test_the_default_bound_grows_with_the_text(case: str) -> None:
    grammar, text = HOSTILE[case]
    with pytest.raises(GrammarLimitError, match=rf"more than (steps=)?{100_000 + 40 * len(text)}"):
        Grammar.from_lark(grammar).captures(text)
    assert Grammar.from_lark(grammar).captures(text[:31])


LINEAR = {
    "a list recursive at its end": ('start: l\nl: "x" l | "x"\nx[capture]: "y"', "x"),
    "a list recursive at its beginning": ('start: l\nl: l x | x\nx[capture]: "x"', "x"),
    "words that may end anywhere": ("start: w*\nw[capture]: /x+/", "x"),
    "empty parts": ('start: e*\ne[capture]: "y"? "x"? "z"?', "x"),
    "characters": ('start: (c | d)*\nc[capture]: "a"\nd[capture]: /[b-z]/', "ab"),
}


@pytest.mark.parametrize("case", LINEAR)
def test_work_is_linear_in_the_text(case: str) -> None:
    text, piece = LINEAR[case]
    grammar = Grammar.from_lark(text)
    for length in (100, 500):
        grammar.captures(piece * (length // len(piece)), steps=40 * length)
