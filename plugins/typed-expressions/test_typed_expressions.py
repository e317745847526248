"""Every text that is drawn is a well-typed program, and every well-typed program can be drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import typed_expressions
from hypothesis import given, settings
from hypothesis import strategies as st
from typed_expressions import TypedExpressions

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Matcher, allocate_bitmask
from engine_sampler.testing import GrammarContract, registered

PIECES = [
    *(bytes((byte,)) for byte in b'abcxyletinfhrsubog019"():=<+ \n'),
    *(b"let ", b" in ", b"if ", b" then", b" else ", b": int = ", b"true", b"false", b"x + ", b"=="),
    *(
        b'"a"',
        b' + "',
        b"1 < ",
        b" == y",
        b"let x: str",
        b"then x else",
        b") + (",
        "é".encode(),
        b"\xc3",
        b"\xa9",
    ),
]
EOS = len(PIECES)
TOKENIZER = Tokenizer([*PIECES, b"<end>"], [EOS])
VOCAB = len(TOKENIZER)
COMPILED = TypedExpressions().compile(TOKENIZER)


def mask(matcher: Matcher) -> set[int]:
    """The tokens that may follow."""
    bitmask = allocate_bitmask(2, VOCAB)
    matcher.fill_bitmask(bitmask, 1)
    bits = np.unpackbits(bitmask[1].view(np.uint8), bitorder="little")
    assert not bits[VOCAB:].any()
    return set(np.flatnonzero(bits).tolist())


def matcher_after(text: str) -> Matcher:
    """A matcher after a text."""
    matcher = COMPILED.matcher()
    assert not text or matcher.accept_bytes(text.encode()), text
    return matcher


# --- a plain type checker for whole programs -----------------------------------------------------

LEXEME = re.compile(r'\s*([a-z]+|[0-9]+|"[^"\\\n]*"|==|[():=<+])')
WORDS = ("let", "in", "if", "then", "else", "true", "false", "int", "str", "bool")


class IllTyped(Exception):
    """The program has no type."""


class PlainChecker:
    """Recursive descent over a list of lexemes, as in a textbook."""

    def __init__(self, text: str) -> None:
        self.lexemes: list[str] = []
        at = 0
        while match := LEXEME.match(text, at):
            self.lexemes.append(match[1])
            at = match.end()
        self.whole = not text[at:].strip()

    def type(self) -> str:
        """The type of the program."""
        kind = self.expression({})
        self.require(self.whole and not self.lexemes)
        return kind

    def require(self, condition: bool) -> None:
        if not condition:
            raise IllTyped

    def take(self, *allowed: str) -> str:
        self.require(bool(self.lexemes) and (not allowed or self.lexemes[0] in allowed))
        return self.lexemes.pop(0)

    def expression(self, scope: dict[str, str]) -> str:
        first = self.lexemes[0] if self.lexemes else ""
        if first == "let":
            self.take()
            name = self.take()
            self.require(name.isalpha() and name not in WORDS)
            self.take(":")
            kind = self.take("int", "str", "bool")
            self.take("=")
            self.require(self.expression(scope) == kind)
            self.take("in")
            return self.expression({**scope, name: kind})
        if first == "if":
            self.take()
            self.require(self.expression(scope) == "bool")
            self.take("then")
            kind = self.expression(scope)
            self.take("else")
            self.require(self.expression(scope) == kind)
            return kind
        return self.comparison(scope)

    def comparison(self, scope: dict[str, str]) -> str:
        left = self.sum(scope)
        if self.lexemes[:1] not in (["<"], ["=="]):
            return left
        operator = self.take()
        self.require(self.sum(scope) == left and (operator == "==" or left == "int"))
        return "bool"

    def sum(self, scope: dict[str, str]) -> str:
        kind = self.operand(scope)
        while self.lexemes[:1] == ["+"]:
            self.take()
            self.require(kind != "bool" and self.operand(scope) == kind)
        return kind

    def operand(self, scope: dict[str, str]) -> str:
        lexeme = self.take()
        if lexeme == "(":
            kind = self.expression(scope)
            self.take(")")
            return kind
        if lexeme in ("true", "false"):
            return "bool"
        if lexeme[0] == '"' or lexeme.isdigit():
            return "str" if lexeme[0] == '"' else "int"
        self.require(lexeme in scope)
        return scope[lexeme]


def well_typed(text: str) -> bool:
    """Whether a whole text is a well-typed program."""
    try:
        return bool(PlainChecker(text).type())
    except IllTyped:
        return False


# --- random programs, well typed -----------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn, kind: str = "", scope: tuple[tuple[str, str], ...] = (), depth: int = 3) -> str:
    """A well-typed program of type `kind`, or of any type if it is ""."""
    kind = kind or draw(st.sampled_from(["int", "str", "bool"]))

    def inner(kind: str, scope: tuple[tuple[str, str], ...] = scope) -> str:
        return draw(programs(kind, scope, depth - 1))

    names = [name for name, other in dict(scope).items() if other == kind]
    literals = {"int": ["0", "19"], "str": ['""', '"é ("'], "bool": ["true", "false"]}[kind]
    shape = draw(st.sampled_from(["leaf", "let", "if", "sum", "compare"])) if depth else "leaf"
    if shape == "let":
        name = draw(st.sampled_from(["x", "y", "le", "inf"]))
        bound = draw(st.sampled_from(["int", "str", "bool"]))
        return f"let {name}: {bound} = {inner(bound)} in {inner(kind, (*scope, (name, bound)))}"
    if shape == "if":
        return f"if {inner('bool')} then {inner(kind)} else {inner(kind)}"
    if shape == "sum" and kind != "bool":
        return f"({inner(kind)}) + ({inner(kind)})"
    if shape == "compare" and kind == "bool":
        side = draw(st.sampled_from(["int", "str", "bool"]))
        return f"({inner(side)})==({inner(side)})" if side != "int" else f"({inner(side)}) < ({inner(side)})"
    return draw(st.sampled_from([*literals, *names]))


def spelled(text: str, draw: st.DataObject) -> list[int]:
    """A text as tokens, each drawn from those that fit."""
    data = text.encode()
    tokens: list[int] = []
    by_byte = {byte for piece in PIECES for byte in piece}
    while data:
        assert data[0] in by_byte, data
        fitting = [i for i, piece in enumerate(PIECES) if data.startswith(piece)]
        tokens.append(draw.draw(st.sampled_from(fitting)))
        data = data[len(PIECES[tokens[-1]]) :]
    return tokens


quick = settings(deadline=None, max_examples=60)


@quick
@given(programs(), st.data())
def test_every_well_typed_program_can_be_drawn_in_any_tokens(text: str, data: st.DataObject) -> None:
    assert well_typed(text)
    matcher = COMPILED.matcher()
    for token_id in [*spelled(text, data), EOS]:
        assert token_id in mask(matcher)
        assert matcher.accept(token_id)
    assert matcher.is_terminated()
    assert mask(matcher) == {EOS}


@quick
@given(st.lists(st.integers(0, 10**6), max_size=25))
def test_the_mask_allows_the_tokens_that_can_be_accepted_and_all_can_be_completed(choices: list[int]) -> None:
    matcher = COMPILED.matcher()
    text = b""
    for choice in choices:
        allowed = mask(matcher)
        assert allowed == {token_id for token_id in range(VOCAB) if matcher.fork().accept(token_id)}
        token_id = sorted(allowed)[choice % len(allowed)]
        matcher.accept(token_id)
        if token_id == EOS:
            break
        text += PIECES[token_id]
    if not matcher.is_terminated():
        text += completion(matcher)
    assert well_typed(text.decode())


ENDINGS = [b'"', b"\xa9", b" then ", b" else ", b" in ", b")", b"1", b"true", b"==", b":", b"int", b"="]
ENDINGS += [b" ", *(bytes((letter,)) for letter in b"xytnflesruoihab")]
"""Pieces that bring a program nearer to its end, the best first."""


def completion(matcher: Matcher) -> bytes:
    """A text that completes a program."""
    text = b" "
    matcher = matcher.fork()
    while not matcher.is_accepting():
        within = text[-1:].isalnum()
        ways = [way for way in ENDINGS if not (within and (way == b"1" or (way.isalpha() and len(way) > 1)))]
        text += next(way for way in ways if matcher.accept_bytes(way))
        assert len(text) < 200
    return text[1:]


# --- masked tokens -------------------------------------------------------------------------------

LEXEMES = [
    "(",
    ")",
    "1",
    '"a"',
    "true",
    " x",
    " y",
    "+",
    "<",
    "==",
    ":",
    "=",
    " in ",
    " then ",
    " else ",
    " int",
]
"""The lexemes except those that need more than three others to complete."""


def continuations(text: str, count: int) -> Iterator[str]:
    """The text followed by up to `count` of the lexemes."""
    yield text
    if count:
        for lexeme in LEXEMES:
            yield from continuations(text + lexeme, count - 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "(1",
        "(1 ==",
        "true ==",
        '"a" +',
        "let x: int = 1 in ",
        "let x: int = 1 in x",
        "let x: str =",
        "let x: bool = 1",
        "if true then 1 else",
        "if (1",
        "let x: str = let y: int = 1 in",
    ],
)
def test_a_lexeme_may_follow_if_some_ending_is_well_typed(text: str) -> None:
    for lexeme in LEXEMES:
        follows = matcher_after(text).accept_bytes(lexeme.encode())
        assert follows or not any(map(well_typed, continuations(text + lexeme, 2)))
        assert not follows or can_be_completed(text + lexeme)


def can_be_completed(text: str) -> bool:
    """Whether a text that the matcher accepts has a well-typed ending."""
    return well_typed(text + completion(matcher_after(text)).decode())


@pytest.mark.parametrize(
    ("text", "refused", "allowed"),
    [
        ("1 + ", ['"a"', "true", "x"], ["1", "("]),
        ('"a" + ', ["1", "let "], ['"a"']),
        ("true", ["+", "<"], ["=="]),
        ("let x: int = ", ['"a"', "true", " == y"], ["1", "let "]),
        ("let x: int = 1", [" == y", "1 < "], [" in ", "+"]),
        ("if ", [")", "="], ["true", "1 < ", "("]),
        ("if 1", [" then"], ["<", "=="]),
        ("if true then 1 else ", ['"a"', "false"], ["1", "if ", "let "]),
        ("let x: int = 1 in x + ", ['"a"'], ["x", "1"]),
        ("(1 < 1) ", ["<", "+"], ["=="]),
        ("1 == 1 ", ["=="], ["+"]),
    ],
)
def test_ill_typed_tokens_are_masked(text: str, refused: list[str], allowed: list[str]) -> None:
    found = mask(matcher_after(text))
    for piece in refused:
        assert PIECES.index(piece.encode()) not in found
    for piece in allowed:
        assert PIECES.index(piece.encode()) in found


def test_a_word_is_refused_as_soon_as_it_begins_no_name_in_scope() -> None:
    matcher = matcher_after('let le: int = 1 in let lx: str = "" in 1 + l')
    assert mask(matcher) & {PIECES.index(b"e"), PIECES.index(b"x")} == {PIECES.index(b"e")}


def test_an_inner_name_hides_the_outer_one() -> None:
    text = 'let x: int = 1 in let x: str = "" in x + '
    assert not matcher_after(text).accept_bytes(b"1")
    assert matcher_after(text).accept_bytes(b"x")
    assert matcher_after("(let x: int = 1 in x) + ").accept_bytes(b"1")
    assert not matcher_after("(let x: int = 1 in x) + ").accept_bytes(b"x")


# --- the matcher ---------------------------------------------------------------------------------


def test_a_matcher_rolls_back_and_forks() -> None:
    matcher = matcher_after("let x: int = ")
    before = mask(matcher)
    other = matcher.fork()
    assert matcher.accept_bytes(b"1 in x")
    assert matcher.accept(PIECES.index(b"+"))
    assert not matcher.accept(PIECES.index(b'"a"'))
    matcher.rollback(1)
    assert matcher.is_accepting()
    matcher.rollback(1)
    assert mask(matcher) == mask(other) == before
    with pytest.raises(ValueError, match="can be undone"):
        matcher.rollback(9)
    assert mask(matcher) == before


def test_tokens_are_validated_and_forced() -> None:
    matcher = matcher_after("let x: bool = true i")
    n, space, one = (PIECES.index(piece) for piece in (b"n", b" ", b'"a"'))
    assert matcher.validate([n, space, one, one]) == 3
    assert matcher.forced_tokens() == [n]
    assert matcher.validate([EOS]) == 0
    assert not matcher.accept(VOCAB)


def test_eos_is_allowed_only_if_the_program_has_a_type() -> None:
    assert EOS not in mask(matcher_after("if true then 1"))
    assert EOS not in mask(matcher_after("let x: int = 1 in"))
    assert EOS in mask(matcher_after("let x: int = 1 in x"))
    assert EOS not in mask(matcher_after("let x: int = 1 in (x"))


@pytest.mark.quick_share(3)
class TestTypedExpressions(GrammarContract):
    grammar = TypedExpressions()
    tokenizer = TOKENIZER
    texts = ["1 + 1", 'let x: str = "" in x', "if true then 1 else 0"]
    other_texts = ["1 +", 'true + "a"', "x"]


# --- in a scheduler ------------------------------------------------------------------------------


@pytest.fixture
def named() -> Iterator[str]:
    """The name of the language in the registry of this process."""
    with registered(typed_expressions) as status:
        assert status.provides == ("grammars/typed_expressions",)
        yield "typed_expressions"


def test_random_programs_from_a_scheduler_are_well_typed(named: str) -> None:
    random = np.random.default_rng(7)
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for seed in range(12):
        scheduler.add(SamplingParams(seed=seed, max_tokens=400), request_id=seed, grammar=named)
    preference = np.zeros(VOCAB, np.float32)
    preference[[EOS, PIECES.index(b")"), PIECES.index(b'"')]] = 3
    for _ in range(400):
        if not scheduler.request_ids:
            break
        count = len(scheduler.request_ids)
        scheduler.step((random.normal(0, 2, (count, VOCAB)) + preference).astype(np.float32))
    records = [scheduler.record(seed) for seed in range(12)]
    ended = [record for record in records if record.finish_reason == "stop"]
    assert len(ended) >= 5
    for record in ended:
        assert well_typed(b"".join(PIECES[i] for i in record.token_ids if i != EOS).decode())
    assert {record.finish_reason for record in records} <= {"stop", "length"}
