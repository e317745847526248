"""Rules with a parameter: the texts are those that the parameter allows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import permutations, product

import pytest

from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError

PERMUTATIONS = """start    :  perm::0x0
perm::_  :  ""                       %if is_ones([0:3])
         |  "a" perm::set_bit(0)     %if bit_clear(0)
         |  "b" perm::set_bit(1)     %if bit_clear(1)
         |  "c" perm::set_bit(2)     %if bit_clear(2)
"""
AT_LEAST_ONCE = re.sub(r"%if bit_clear.*", "", PERMUTATIONS)
COUNTED = """start  : lst::0x0
lst::_ : "a" lst::incr([0:3])  %if lt([0:3], 2)
       | "b" lst::incr([3:6])  %if lt([3:6], 1)
       | "c" lst::incr([6:9])  %if le([6:9], 2)
       | ""
"""
CHOSEN = """start    :  "[" perm::0x0 "]"
perm::_  :  ""                       %if bit_count_ge(_, 1)
         |  "a" perm::set_bit(0)     %if and(bit_clear(0), bit_count_lt(_, 2))
         |  ("b" | "B") perm::set_bit(1)     %if and(bit_clear(1), not(bit_count_eq([0:5], 2)))
         |  "c" perm::set_bit(2)     %if and(bit_clear(2), or(eq(_, 0), is_zeros([2:64])))
"""


def chosen(text: str) -> bool:
    return text[:1] == "[" and text[-1:] == "]" and text[1:-1] in chosen_texts()


def chosen_texts() -> set[str]:
    """What `CHOSEN` derives, by hand."""
    derived, waiting = set(), [("", 0)]
    while waiting:
        text, p = waiting.pop()
        if p.bit_count() >= 1:
            derived.add(text)
        if not p & 1 and p.bit_count() < 2:
            waiting.append((text + "a", p | 1))
        if not p & 2 and (p & 31).bit_count() != 2:
            waiting.append((text + "b", p | 2))
        if not p & 4 and (p == 0 or p >> 2 == 0):
            waiting.append((text + "c", p | 4))
    return derived


CASES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "permutations": (PERMUTATIONS, lambda text: tuple(text) in permutations("abc")),
    "at least once": (AT_LEAST_ONCE, lambda text: set(text) == set("abc")),
    "counted": (
        COUNTED,
        lambda text: text.count("a") <= 2 and text.count("b") <= 1 and text.count("c") <= 3,
    ),
    "chosen": (CHOSEN, chosen),
}


@pytest.mark.parametrize("case", CASES)
def test_the_texts_are_those_that_the_parameter_allows(case: str) -> None:
    text, expected = CASES[case]
    grammar = Grammar.from_lark(text)
    alphabet = "[]abc" if case == "chosen" else "abc"
    for length in range(6):
        for letters in product(alphabet, repeat=length):
            word = "".join(letters)
            assert grammar.check(word).valid == expected(word), word


def naive(p: int, name: str, numbers: tuple[int, ...]) -> int:
    """The value of a function, from its definition."""
    low, high = (numbers * 2)[:2]
    bit, full = 1 << low % 64, (1 << max(high - low, 1) % 64) - 1
    field = p >> low % 64 & full
    return {
        "set_bit": p | bit,
        "clear_bit": p & ~bit,
        "bit_and": p & low,
        "bit_or": p | low,
        "incr": p if field == full else p + bit,
        "decr": p if field == 0 else p - bit,
    }[name]


@pytest.mark.parametrize("seed", range(40))
def test_functions_of_values_are_what_their_definitions_say(seed: int) -> None:
    rng = random.Random(seed)
    p = rng.choice([0, 1, 5, 0xFFFF, rng.getrandbits(64), (1 << 64) - 1])
    name = rng.choice(["set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr"])
    low, high = sorted(rng.sample(range(64), 2))
    number = rng.getrandbits(64)
    bounds = name in ("incr", "decr")
    argument = f"[{low}:{high}]" if bounds else str(low if name.endswith("_bit") else hex(number))
    numbers = (low, high) if bounds else (low,) if name.endswith("_bit") else (number,)
    expected = naive(p, name, numbers)
    text = f"""start: r::{rng.choice([p, hex(p)])}
r::_: s::{name}({argument})
s::_: "y" %if eq(_, {expected})
    | "n" %if ne(_, {expected})
"""
    grammar = Grammar.from_lark(text)
    assert grammar.check("y").valid
    assert not grammar.check("n").valid


def test_what_stands_around_stays_and_no_way_is_no_text() -> None:
    grammar = Grammar.from_lark(
        """start: (a::1 | b::_ | "::")~1..2  // _ is 0 here
        a::_: %json {"const":
                 1} X -> one
            | "never" %if bit_clear(0)
        b::_: "b" %if bit_set(0)
        X: "x"
        """
    )
    assert grammar.check("1x::").valid
    assert not any(grammar.check(text).valid for text in ("b", "never", ""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: r::0", r"there is no rule r::_ .*line 1, column 8"),
        ("start: r::\nr::_: A", r"a value must follow r::"),
        ('start: r::up(1)\nr::_: "a"', r"there is no function 'up' of values .*line 1"),
        ('start: r::set_bit(64)\nr::_: "a"', r"'64' is not a number from 0 to 63"),
        ('start: r::incr([3:3])\nr::_: "a"', r"'\[3:3\]' are no bits"),
        ('start: r::0\nr::_: "a" %if maybe(1)', r"'maybe\(1\)' is not a condition .*line 2, column 11"),
        ('start: r::0\nr::_: "a"\nr::_: "b"', r"'r' is defined more than once .*line 3, column 1"),
        ('start: "a" %if true\nr::_: "a"', r"%if is only allowed in a rule with a parameter .*line 1"),
        ('start: r::0\n?r::_: "a"', "has no modifiers"),
        ("start: r::0\n\nr::_: foo", r"'foo' used but not defined.*line 3, column 1"),
        ("start: r::0\nr::_: /(a)\\1/", r"backreference.*line 2, column 1"),
    ],
)
def test_errors_have_their_place(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(text)


def test_values_are_bounded() -> None:
    text = 'start: r::0\nr::_: "a" r::incr(_) | ""'
    with pytest.raises(GrammarLimitError, match=r"the rule r: .* more than 4096 values .*line 2"):
        Grammar.from_lark(text)
    nested = "not(" * 30 + "true" + ")" * 30
    with pytest.raises(GrammarError, match="nested more than 20 deep"):
        Grammar.from_lark(f'start: r::0\nr::_: "a" %if {nested}')
