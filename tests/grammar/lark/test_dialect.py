"""The forms that rules may have beyond lark's syntax."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.dialect import rewrite
from engine_sampler.grammar.lark.grammar import rules_from_lark
from engine_sampler.grammar.lark.plain_definitions import plain_definitions
from engine_sampler.grammar.lark.statements import Scan
from engine_sampler.grammar.program.expression import literal
from engine_sampler.grammar.program.rules import Rules, alternatives

from ..both_engines import Engine, every_engine
from .oracle import ours

TOKENS = [b"<|call|>", b"<call>", b"[CALL]", b"a", b"ab", b"</s>"]
SPECIAL = {"<|call|>": 0, "<call>": 1, "[CALL]": 2}


def accepts_tokens(engine: Engine, text: str, token_ids: list[int], **options: Any) -> bool:
    """Whether the tokens are a whole text of the grammar."""
    program = rules_from_lark(text, special_tokens=SPECIAL, **options).program()
    matcher = engine(program, TOKENS, [5], [0, 1, 2, 5]).matcher()
    return all(map(matcher.accept, token_ids)) and bool(matcher.is_accepting())


@every_engine
@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ('start: <|call|> "a"', [0, 3], [1, 3]),
        ('start: "ab" <call>', [4, 1], [4, 0]),
        ('start: "ab" <call>', [4, 1], [4]),
        ("start: <[CALL]>+", [2, 2], [2, 1]),
        ("start: <[0,2]> <[1-2]>", [0, 2], [1, 2]),
        ("start: t{<|call|>}\nt{x}: x | x x", [0, 0], [0, 0, 0]),
    ],
)
def test_a_rule_may_name_special_tokens(
    engine: Engine, text: str, right: list[int], wrong: list[int]
) -> None:
    assert accepts_tokens(engine, text, right)
    assert not accepts_tokens(engine, text, wrong)


@every_engine
def test_a_special_token_is_not_its_text(engine: Engine) -> None:
    program = rules_from_lark("start: <|call|>", special_tokens=SPECIAL).program()
    matcher = engine(program, TOKENS, [5], [0, 1, 2, 5]).matcher()
    assert not matcher.accept_bytes(b"<|call|>")


@every_engine
def test_a_declared_terminal_may_be_a_special_token_or_an_expression(engine: Engine) -> None:
    text = "start: CALL WORD\n%declare CALL WORD"
    program = rules_from_lark(text, special_tokens={"CALL": 2}, declared={"WORD": "[ab]+"}).program()
    matcher = engine(program, TOKENS, [5], [0, 1, 2, 5]).matcher()
    assert matcher.accept(2)
    assert matcher.accept(4)
    assert matcher.is_accepting()


def test_a_declared_terminal_without_a_meaning_matches_nothing() -> None:
    language = ours('start: "a" | "b" X | y\n%declare X y')
    assert language("a")
    assert not language("b")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("start: <|other|>", "<|other|> is not a special token"),
        ("start: <[3-]>", "is not a list of token ids"),
        ("start: <[^3-]>", "is not a list of token ids"),
        ("start: <[^a]>", "is not a list of token ids"),
        ("start: A\nA: <|call|>", "only allowed in a rule"),
        ("start: r\nr[lazy]: /a/ <|call|>", "only allowed in a rule"),
        ("start: %json {}", "%json is not supported here"),
        ("start: %json {,}", "invalid JSON"),
        ('start: %regex {"pattern": "a"}', "takes substring_chunks"),
        ('start: %regex {"substring_chars": "a\\ud800"}', "lone surrogate"),
        ('start: %regex {"substring_words": "a\\ud800"}', "lone surrogate"),
        ('start: "a"{,}', "is not a count"),
        ('start: r\nr[quick]: "a"', "no attribute 'quick'"),
        ('start: r\nr[suffix]: "a"', "the attribute 'suffix' has a wrong value"),
        ('start: r\nr[lazy "a"', "not closed"),
        ('start: r\nr[lazy] "a"', "a colon must follow"),
        ('start: r\nr[lazy]: s\ns: "a"', "s is only allowed in a rule that is neither lazy"),
    ],
)
def test_a_wrong_form_is_refused_with_its_position(text: str, reason: str) -> None:
    with pytest.raises(GrammarError) as caught:
        rules_from_lark(text, special_tokens=SPECIAL)
    assert reason in str(caught.value)
    assert caught.value.line is not None


def choice_of(schema: Any, rules: Rules) -> int:
    """A reader of schemas that supports `enum` only."""
    if "enum" not in schema:
        raise GrammarLimitError("no enum")
    rule = rules.rule("enum")
    rules.define(rule, alternatives(*(rules.terminal(one, literal(one.encode())) for one in schema["enum"])))
    return rule


def test_a_rule_may_contain_a_schema() -> None:
    text = 'start: "<" value* ">"\nvalue: %json {\n  "enum": ["a//", "}b\\""]\n} ";"'
    language = ours(text, schema_rules=choice_of)
    assert all(map(language, ["<>", "<a//;>", '<}b";a//;>']))
    assert not any(map(language, ["<a//>", "<b;>", "a//;"]))


def test_an_error_in_a_schema_has_the_position_of_the_schema() -> None:
    with pytest.raises(GrammarLimitError, match=r"%json: no enum \(line 2, column 4\)"):
        rules_from_lark('start: a\na: %json {"type": "string"}', schema_rules=choice_of)


def test_words_in_a_row_are_those_of_a_text_with_what_is_between_them() -> None:
    language = ours('start: %regex {"substring_words": "The fox_1, it\'s  -- \u00e9t\u00e9\\n42!?"}')
    assert all(
        map(language, ["", "The", "The ", "fox_1, it", "it's", "'s  ", "  ", "--", "\u00e9t\u00e9\n42", "!?"])
    )
    assert not any(map(language, ["Th", "fox", "_1", "it's ", " --", "-", "4", "!", "\u00e9"]))


def test_substrings_of_a_text_keep_their_order() -> None:
    language = ours('start: "<" %regex {"substring_chars": "aébab"} ">"')
    assert all(map(language, ["<>", "<a>", "<éb>", "<bab>", "<aébab>", "<ba>"]))
    assert not any(map(language, ["<aa>", "<abé>", "<aébabx>"]))
    language = ours('start: PIECE\nPIECE: %regex {"substring_chunks": ["ab", "", "a", "b ", "ab"]}')
    assert all(map(language, ["", "ab", "a", "aba", "abab ab", "b ab"]))
    assert not any(map(language, ["b", "ba", " ", "abb "]))


@pytest.mark.parametrize(
    ("count", "least", "most"),
    [("{2}", 2, 2), ("{2,4}", 2, 4), ("{,3}", 0, 3), ("{2,}", 2, None), ("{ 0 , 1 }", 0, 1), ("{0}", 0, 0)],
)
def test_counts_in_braces(count: str, least: int, most: int | None) -> None:
    for text in (f'start: "a"{count} "b"', f'start: a{count} "b"\na: "a"', f'start: A\nA: "a"{count} "b"'):
        language = ours(text)
        for n in range(7):
            assert language("a" * n + "b") == (least <= n <= (99 if most is None else most)), (text, n)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize(("low", "high"), [(0, 100), (70, 100), (99, 99), (3, 131), (128, 128)])
def test_many_repetitions_of_a_rule_are_counted_exactly(low: int, high: int) -> None:
    language = ours(f'start: x~{low}..{high} "."\nx: "a" | "(" x ")"')
    empty = ours(f'start: x~{low}..{high} "."\nx: "a"?')
    for n in {0, 1, low - 1, low, low + 1, high - 1, high, high + 1} - {-1}:
        assert language("a" * n + ".") == (low <= n <= high), n
        assert empty("a" * n + ".") == (n <= high), n
    endless = ours(f'start: x{{{low},}} "."\nx: "a" | "b"')
    assert endless("ab" * 200 + ".")
    assert not low or not endless("a" * (low - 1) + ".")


TOOLS = """
start: tool* tail
tail: TEXT
head[lazy]: TEXT "<call>"
tool: head /[0-9]+/ "</call>"
TEXT: /(.|\\n)*/
"""


def test_text_is_free_up_to_a_trigger_which_counts() -> None:
    language = ours(TOOLS)
    assert all(map(language, ["", "free <cal text\n", "<call>1</call>", "a<call>1</call>b<call>23</call>c"]))
    assert not any(map(language, ["<call>", "a<call>x</call>", "a<call>1", "<call>1</call><call>"]))


@pytest.mark.parametrize("mark", ["suffix", "stop"])
def test_a_suffix_ends_a_rule_at_its_first_occurrence(mark: str) -> None:
    language = ours(f'start: r "c"\nr[{mark}="b", capture="x"]: /[a-z]*/')
    assert all(map(language, ["bc", "aabc"]))
    assert not any(map(language, ["abbc", "aac", "ab"]))
    language = ours(f'start: r\nr[{mark}=END]: /[a-z]+/\n  | /[0-9]/  // a comment\nEND: /!+/ | "?"')
    assert all(map(language, ["ab!", "a?", "1!"]))
    assert not any(map(language, ["a!!", "!", "12!"]))


def test_a_lazy_rule_ends_as_early_as_it_can() -> None:
    language = ours('start: "<" r ">"\n?r[lazy]: /[a-z]+/')
    assert language("<a>")
    assert not language("<ab>")
    assert ours('start: "<" r ">"\nr[lazy]: /[a-z]*/')("<>")


def test_the_first_of_two_triggers_counts() -> None:
    language = ours('start: (x | y)*\nx: h "1"\ny: i "2"\nh[lazy]: T "<x>"\ni[lazy]: T "<y>"\nT: /[^0-9]*/')
    assert all(map(language, ["a<x>1", "<y>2b<x>1", "<x<y>2"]))
    assert not any(map(language, ["<x>a<y>2", "<x>2", "<y>1"]))


def test_captures_alone_have_no_effect() -> None:
    language = ours('start: r\nr[capture="x"]: "a" r? "b"')
    assert language("aabb")
    assert not language("aab")


def test_the_same_forms_in_literals_and_comments_have_no_meaning() -> None:
    text = 'start: "<|a|>" /<\\[1\\]>/ "{2}" // <|b|>\n  | t{"%json"} # {3\nt{x}: x'
    language = ours(text)
    assert language("<|a|><[1]>{2}")
    assert language("%json")


GAPS = {
    "line ends": "\n" * 1000,
    "of Windows": "\r\n" * 1000,
    "around comments": "\n" * 500 + "// a comment\n" + "\n" * 500 + "# another\n",
}


@pytest.mark.parametrize("gap", GAPS.values(), ids=list(GAPS))
def test_lark_meets_no_two_line_ends_in_a_row(gap: str) -> None:
    """It would take quadratic time for them, minutes for a text of nothing else."""
    text = f'start: "a" B{gap}%ignore /x/{gap}B: "b"{gap}%ignore B'
    for known in (plain_definitions(Scan(text)), {}):
        rewritten = rewrite(Scan(text), known).text
        assert "\n\n" not in rewritten
        assert "\n\r\n" not in rewritten
        assert rewritten.count("\n") == text.count("\n")
    assert ours(text)("axb")


def test_an_error_behind_a_gap_has_its_position() -> None:
    with pytest.raises(GrammarError) as caught:
        rules_from_lark('start: "a"\n' + "\n" * 1000 + "  %ignore /x/ )")
    assert (caught.value.line, caught.value.column) == (1002, 15)


@pytest.mark.parametrize("options", ["%llguidance {}", '%grammar_options {"no_forcing": true}'])
def test_options_of_other_systems_that_change_nothing_are_read(options: str) -> None:
    grammar = Grammar.from_lark(f'{options}\nstart: "a"\n')
    assert grammar.check("a").valid
    with pytest.raises(GrammarError, match=r"Rule 'b' used but not defined.*line 2, column 8"):
        Grammar.from_lark(f"{options}\nstart: b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            '%llguidance {"allow_invalid_utf8": true}',
            "'allow_invalid_utf8' is not supported; allowed are no_forcing",
        ),
        ('%llguidance {"no_forcing": 1}', "'no_forcing' is not supported"),
        ("%llguidance []", "after %llguidance, an object of options is allowed"),
        ("%llguidance {} x", "after %llguidance, an object of options is allowed"),
        ("%llguidance {", "invalid JSON"),
    ],
)
def test_other_options_are_refused(options: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(f'start: "a"\n{options}')


def test_names_may_have_hyphens() -> None:
    grammar = Grammar.from_lark("""
        start: key-value more-key*
        ?key-value: KEY-NAME "=" /[a-c]-[x-z]/ -> first-one
        more-key[lazy]: "," KEY-NAME
        KEY-NAME: /k-+/
    """)
    assert grammar.check("k-=a-z,k-").valid
    assert not grammar.check("k_").viable
    with pytest.raises(GrammarError, match=r"a_b and a-b are one name in Lark.*line 1, column 12"):
        Grammar.from_lark('start: a-b a_b\na-b: "a"\na_b: "b"')
