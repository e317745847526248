"""No text is begun that nothing can finish, and none is refused that something can."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark import grammar as reading
from engine_sampler.grammar.lark.contextual import reading as contextual
from engine_sampler.grammar.program.reaching import nodes_reaching
from engine_sampler.grammar.program.rules import Rules

READERS: dict[str, Callable[[str], Rules]] = {
    "dynamic_complete": reading.rules_from_lark,
    "contextual": contextual.rules_from_lalr,
}


@pytest.mark.parametrize(
    ("rules", "leading_on", "leading_nowhere"),
    [
        ('start: A B | A "!"\nA: /a+/\nB: /ab/', ["a", "aa!"], ["ab"]),
        ('start: A (" " A)* "."\nA: /[^ .]+/', ["é", "a b", "a b."], ["a ."]),
        ('start: A A | "x"\nA: /[^ .]+/', ["x"], ["a", "é", "x."]),
        ('start: T "]" | "."\nT: /[^.]+/', ["."], ["[", "a", "]"]),
        ('start: T | N "!"\nT.1: /[ab]+/\nN: /[a-z]+/', ["a", "ab", "zb!"], ["a!", "az"]),
        ('start: WORD NAME "."\nWORD: "if"\nNAME: /[a-z]+/\n%ignore " "', ["if x.", "ifx."], ["x"]),
        ('start: "a" "b"\n%ignore /#.*/\n%ignore /#(?!b)/', [], ["a#", "a#b", "#"]),
    ],
)
def test_a_terminal_after_which_nothing_can_follow_does_not_begin(
    rules: str, leading_on: list[str], leading_nowhere: list[str]
) -> None:
    grammar = Grammar.from_lark(rules, lexer="contextual")
    assert [one for one in leading_on if not grammar.check(one).viable] == []
    assert [one for one in leading_nowhere if grammar.check(one).viable] == []


@pytest.mark.parametrize("lexer", READERS)
@pytest.mark.parametrize(
    ("rules", "leading_on", "leading_nowhere"),
    [
        ('start: A "b" | "c"\nA: /a(?!b)/', ["c"], ["a"]),
        ('start: A ("b" | "d")\nA: /a(?!bc|d)/', ["a", "ab"], ["ad"]),
        ('start: A A A? | "x"\nA: /a(?![ab])/\n%ignore "_"', ["a_", "a_a"], ["aa", "ab"]),
        ('start: A "x" | A* "y"\nA: /a(?!.*x)/', ["a", "aay"], ["ax"]),
        ('start: A "x" | "y"\nA: /a(?!.*x)/', ["y"], ["a"]),
        ('start: A "b" | "x"\nA: /a|aa(?!b)/', ["a", "ab"], ["aa"]),
        ("start: A B*\nA: /b(?!ab)/\nB: /(ab)+/", ["b"], ["ba"]),
        ('start: A "b"?\nA: /a(?![ab]*#)/\n%ignore /a#/', ["ab", "a#a"], ["aa"]),
        ('start: "1" x "bb" | "2" x "c" | "1"\nx: A\nA: /a(?!bb)/', ["1", "2ac"], ["1a"]),
        ('start: item* "."\nitem: "[" A "]"\nA: /a+(?!\\])|b/', ["[b"], ["[a"]),
    ],
)
def test_a_look_ahead_that_rules_out_everything_refuses_its_terminal(
    rules: str, leading_on: list[str], leading_nowhere: list[str], lexer: str
) -> None:
    grammar = Grammar.from_lark(rules, lexer=lexer)  # type: ignore[arg-type]
    assert [one for one in leading_on if not grammar.check(one).viable] == []
    assert [one for one in leading_nowhere if grammar.check(one).viable] == []


@pytest.mark.parametrize("lexer", READERS)
def test_a_grammar_that_no_text_can_finish_is_refused(lexer: str) -> None:
    with pytest.raises(GrammarError, match="no text at all"):
        Grammar.from_lark('start: A "b"\nA: /a(?!b)/', lexer=lexer).check("")  # type: ignore[arg-type]


def test_what_takes_too_many_steps_to_examine_is_taken_to_lead_on() -> None:
    rules = 'start: A "b" | "x"\nA: /a{100}(?!b)/'
    assert Grammar.from_lark(rules).check("a").viable


# Random grammars.

PLAIN = "a+ a*b [ab]+ ab? a(bb)? [ab]{2} a b ab ba #a* #[^b]* [^a#]+".split()
LOOKING = (
    "a(?!b) (?!b)[ab]+ ab(?!a) a+(?!b) a(?!a|bb)b? a(?!.*b) a(?![ab]*#) #(?!a) a(?=b) a(?![ab#])".split()
)
SKIPPED = "#a* #[^b]* #+ a# #a*# #(a|ab)? b+#".split()
BYTES = b"ab#c"


def random_grammar(seed: int) -> str:
    """A grammar over few characters: terminals that begin alike, priorities, ignored text; every other one
    has look-aheads."""
    source = random.Random(seed)
    patterns = PLAIN + LOOKING if seed % 2 else PLAIN

    def choice(depth: int) -> str:
        return " | ".join(
            " ".join(item(depth) for _ in range(source.randint(1, 3))) for _ in range(source.randint(1, 2))
        )

    def item(depth: int) -> str:
        inner = f"({choice(depth + 1)})" if depth < 2 else "x"
        kinds = [source.choice("XYZ"), source.choice(['"a"', '"ab"', '"#"']), inner, "x"]
        return source.choices(kinds, (12, 3, 3, 2))[0] + source.choice(["", "", "", "?", "*", "+"])

    return "\n".join(
        [
            f"start: {choice(0)}",
            f"x: {choice(2).replace('x', 'X')}",
            *(f"{name}{source.choice(['', '.1'])}: /{source.choice(patterns)}/" for name in "XYZ"),
            *(f"%ignore /{source.choice(SKIPPED)}/" for _ in range(source.choice([0, 1, 2]))),
        ]
    )


def configurations(rules: Rules) -> Any:
    """What the engine in Python may reach, byte by byte; None if no text at all matches."""
    try:
        return ReferenceGrammar(rules.program(), ()).tables().configurations
    except GrammarError as error:
        if "no text at all" not in str(error):
            raise
        return None


def compared(old: Any, new: Any) -> str:
    """Compares the configurations of a grammar as it is written, `old`, with those of the one that is read.

    The texts of the language are those of `old`, and all their beginnings are still allowed. Returns whether
    `new` allows others, which lead nowhere, and whether `old` does. Only some hundred configurations are
    visited: whatever is not decided by these does not count.
    """
    start = old.start, new.start if new else 0
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pair in (waiting := [start]):
        if pair in steps or len(steps) > 200:
            continue
        reached = [(old.step(pair[0], byte), new.step(pair[1], byte) if new else 0) for byte in BYTES]
        steps[pair] = [after for after in reached if after != (0, 0)]
        assert all(before or not after for before, after in steps[pair])
        waiting += steps[pair]
    edges = [(pair, after) for pair, some in steps.items() for after in some]
    ending = [pair for pair in waiting if old.accepting(pair[0])]
    assert all(new and new.accepting(other) for _, other in ending)
    led = nodes_reaching(edges, ending)
    assert all(other for _, other in led)
    nowhere = set(steps) - nodes_reaching(edges, [*ending, *(set(waiting) - set(steps))])
    return "open" if any(other for _, other in nowhere) else "closed" if nowhere else "none"


@pytest.mark.parametrize("lexer", READERS)
def test_random_grammars_keep_their_texts_and_lose_most_dead_ends(
    lexer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(50):
        text = random_grammar(seed)
        try:
            new = configurations(READERS[lexer](text))
        except GrammarError:
            continue  # not LALR, say
        with monkeypatch.context() as patched:
            patched.setattr(contextual, "without_dead_ends", lambda parser, rules: parser)
            patched.setattr(reading, "drop_dead_ends", lambda *arguments: False)
            old = configurations(READERS[lexer](text))
        if old is not None:
            outcomes[compared(old, new)] += 1
    assert outcomes["closed"] > 3 * outcomes["open"]
    assert outcomes["none"] > 10
