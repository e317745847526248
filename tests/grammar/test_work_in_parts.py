"""Work in parts: a call that may do only so much stops there, keeps what it has found, and is continued."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import Tokenizer, UnfinishedError
from engine_sampler.contract import Work
from engine_sampler.contract.work import REQUEST_WORK
from engine_sampler.grammar import Grammar, GrammarLimitError, Limits
from engine_sampler.grammar.compiled import cache_info, clear_cache, compiled_grammar
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.engines.native import NativeGrammar, NativeVocabulary
from engine_sampler.grammar.limits import LIMITS
from engine_sampler.grammar.program import expression as e

from .both_engines import native_grammar
from .random_grammars import ALPHABET, compiled_or_none, grammars, guarded, quick
from .random_grammars import Grammar as RandomGrammar

pytestmark = pytest.mark.skipif(native.load_library() is None, reason="the native library is missing")

TOKENS = [b"", *(bytes(some) for size in (1, 2, 3) for some in product(ALPHABET, repeat=size))]
SLACK = 1.25
"""A call stops at the first count after its work is used up: one allocation or loop later."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The bytes, EOS, and random longer tokens of few letters, which share many prefixes."""
    source = random.Random(5)
    pieces = {bytes(source.choices(b"ab c1_\xc3\xa9", k=source.randint(2, 9))) for _ in range(6000)}
    return Tokenizer(
        [*(bytes([byte]) for byte in range(256)), *sorted(pieces), b"<eos>"], [256 + len(pieces)]
    )


def in_parts(
    call: Callable[[Work], Any], each: int, most: int = 100_000, growth: float = 1
) -> tuple[Any, list[int]]:
    """The result of a call that is repeated until it finishes, and the work of each repetition; each may do
    `growth` times as much as the one before."""
    used = []
    for n in range(most):
        allowed = int(each * growth**n)
        work = Work(allowed, allowed)
        try:
            return call(work), [*used, allowed - work.left]
        except UnfinishedError:
            used.append(allowed - work.left)
    raise AssertionError(f"unfinished after {most} calls")


def filled(matcher: Any, tokens: int, each: int | None = None) -> bytes:
    bitmask = np.zeros((1, (tokens + 31) // 32), np.int32)
    if each is None:
        matcher.fill_bitmask(bitmask, 0)
    else:
        in_parts(partial(matcher.fill_bitmask, bitmask, 0), each)
    return bitmask.tobytes()


# --- bounds ---------------------------------------------------------------------------------------

CLASSES = r"(\w|\d|\s|[^a-z]){1,5000}"
LONG = "".join(random.Random(1).choices("ab c", k=300_000))
HOSTILE: dict[str, Callable[[], Grammar]] = {
    "classes": lambda: Grammar.from_regex(CLASSES * 20),
    "nested counts": lambda: Grammar.from_regex("((a{0,100}){0,100}){0,100}"),
    "a letter far from the end": lambda: Grammar.from_regex(".*a.{30}b"),
    "long texts": lambda: Grammar.from_choices([LONG + "a", "b" + LONG]),
    "a residue": lambda: Grammar.from_json_schema({"type": "string", "pattern": "^(a|b)*a(a|b){18}$"}),
    "many words": lambda: Grammar.from_regex("|".join(f"a{i}b+" for i in range(3000))),
    "ambiguity": lambda: Grammar.from_lark('start: start start | "a" | "b"'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_call_does_more_work_than_it_may(name: str, tokenizer: Tokenizer) -> None:
    matcher = HOSTILE[name]().compile(tokenizer).matcher()
    each, worst = REQUEST_WORK // 10, 0
    bitmask = np.zeros((1, (len(tokenizer) + 31) // 32), np.int32)

    def run(call: Callable[[Work], Any]) -> bool:
        nonlocal worst
        try:
            worst = max(worst, *in_parts(call, each, 200)[1])
        except AssertionError:
            return False  # one step of it needs more than this test allows: a scheduler would end the request
        return True

    for byte in b"aababb":
        if not run(partial(matcher.fill_bitmask, bitmask, 0)):
            break
        if not run(partial(matcher.accept, byte)):
            break
    assert 0 < worst <= each * SLACK


PASSWORD = {"type": "string", "allOf": [{"pattern": p} for p in ("[a-z]", "[A-Z]", "[0-9]")], "minLength": 8}
ADDRESS = {"type": "string", "pattern": r"[^@\s]+@[^@\s]+\.[^@\s]+", "minLength": 6, "maxLength": 1708}


@pytest.mark.parametrize("schema", [PASSWORD, ADDRESS], ids=["password", "address"])
def test_masks_that_take_long_are_finished_in_small_parts(schema: Any, tokenizer: Tokenizer) -> None:
    matcher = Grammar.from_json_schema(schema).compile(tokenizer).matcher()
    bitmask = np.zeros((1, (len(tokenizer) + 31) // 32), np.int32)
    parts = 0
    for byte in b'"ab c':
        parts += len(in_parts(partial(matcher.fill_bitmask, bitmask, 0), 20_000, 500)[1])
        assert in_parts(partial(matcher.accept, byte), 20_000, 500)[0]
    assert parts > 8


def test_a_long_text_costs_as_much_at_every_token_as_a_short_one(tokenizer: Tokenizer) -> None:
    def work_of(text: str) -> int:
        matcher = Grammar.from_choices([text, "b" + text]).compile(tokenizer).matcher()
        used = 0
        for byte in text[:20].encode():
            used += sum(in_parts(partial(matcher.accept, byte), REQUEST_WORK)[1])
        return used

    assert work_of(LONG) < 20 * work_of(LONG[:1000])


def test_right_recursion_hidden_behind_an_empty_rule_costs_as_much_as_the_text_is_long(
    tokenizer: Tokenizer,
) -> None:
    """The text determines how many letters may follow, so a row has as many items; each is looked at once."""
    grammar = Grammar.from_lark('start: "a" start empty |\nempty: "b"?')

    def work_after(length: int) -> int:
        matcher = grammar.compile(tokenizer).matcher()
        for _ in range(length):
            assert matcher.accept(ord("a"))
        return sum(in_parts(partial(matcher.accept, ord("a")), REQUEST_WORK)[1])

    few = work_after(200)
    assert work_after(800) < 8 * few


@pytest.mark.parametrize(
    "recursion", ["start: start item | item", "start: x item | item\nx: start", "start: item+"]
)
def test_a_long_list_costs_as_much_at_every_member_as_at_the_first(
    recursion: str, tokenizer: Tokenizer
) -> None:
    matcher = Grammar.from_lark(f'{recursion}\nitem: "a"').compile(tokenizer).matcher()
    work = Work(REQUEST_WORK, REQUEST_WORK)
    for _ in range(10):
        assert matcher.accept(ord("a"))
        filled(matcher, len(tokenizer))
    before = work.left
    for _ in range(5000):
        assert matcher.accept(ord("a"), work)
    assert before - work.left <= 5000


def test_the_work_of_a_text_that_is_never_finished_is_bounded(tokenizer: Tokenizer) -> None:
    matcher = (
        Grammar.from_regex(r"(\w|[^a-k]){1,77}b").compile(tokenizer, limits=Limits(carried=500)).matcher()
    )
    with pytest.raises(GrammarLimitError, match=r"Limits\.carried"):
        in_parts(partial(matcher.fill_bitmask, np.zeros((1, 500), np.int32), 0), 100)


def test_work_is_shared_by_calls(tokenizer: Tokenizer) -> None:
    matcher = Grammar.from_regex("[ab]+").compile(tokenizer).matcher()
    work = Work(REQUEST_WORK, 3 * REQUEST_WORK)
    bitmask = np.zeros((1, 500), np.int32)
    matcher.fill_bitmask(bitmask, 0, work)
    after_one = work.left
    assert 0 < after_one < 3 * REQUEST_WORK
    assert matcher.accept(ord("a"), work)
    assert work.left < after_one
    work.allow(0, 0)
    with pytest.raises(UnfinishedError):
        matcher.accept(ord("b"), work)
    assert matcher.accept(ord("b"))


# --- exactness ------------------------------------------------------------------------------------


@quick
@given(
    grammar=grammars(guarded.filter(lambda part: not e.nullable(part)), ignore=True),
    parts=st.lists(st.tuples(st.integers(20, 2000), st.integers(0, 1000)), max_size=5),
)
def test_masks_and_accepts_in_parts_are_those_made_at_once(
    grammar: RandomGrammar, parts: list[tuple[int, int]]
) -> None:
    """Each part has a random size at first, and both matchers have tables of their own."""
    if (compiled := compiled_or_none(native_grammar, grammar, TOKENS)) is None:
        return
    whole, bitmask = compiled.matcher(), np.zeros((1, (len(TOKENS) + 31) // 32), np.int32)
    parted = native_grammar(grammar.rules.program(), TOKENS).matcher()
    for each, choice in parts:
        in_parts(partial(parted.fill_bitmask, bitmask, 0), each, growth=1.1)
        assert bitmask.tobytes() == filled(whole, len(TOKENS))
        token_id = choice % len(TOKENS)
        assert in_parts(partial(parted.accept, token_id), each, growth=1.1)[0] == whole.accept(token_id)


def test_an_unfinished_accept_changes_nothing(tokenizer: Tokenizer) -> None:
    matcher = Grammar.from_regex("a[ab]{1,50}").compile(tokenizer).matcher()
    before = filled(matcher.fork(), len(tokenizer))
    with pytest.raises(UnfinishedError):
        matcher.accept(ord("a"), Work(0, 0))
    assert filled(matcher, len(tokenizer)) == before
    assert matcher.accept(ord("a"))


# --- memory ---------------------------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[tuple[Tokenizer, Limits]]:
    """A tokenizer whose grammars may use few bytes together."""
    source = random.Random(8)
    pieces = {bytes(source.choices(b"abcx]", k=source.randint(2, 6))) for _ in range(3000)}
    tokenizer = Tokenizer([*(bytes([byte]) for byte in range(256)), *sorted(pieces)], [0])
    yield tokenizer, Limits(grammar_memory=2 << 20)
    clear_cache(tokenizer)


def counted(n: int) -> Grammar:
    return Grammar.from_lark(f'start: (b | c) "]"\nb: /[\\s\\S]{{1,{n}}}/\nc: /[^x]{{1,{n}}}/')


def grow(compiled: Any, steps: int = 150) -> Any:
    """Fill masks of growing texts; returns the matcher."""
    matcher = compiled.matcher()
    for _ in range(steps):
        filled(matcher, compiled.tokenizer and len(compiled.tokenizer))
        assert matcher.accept(ord("a"))
    return matcher


def test_the_cache_counts_what_grammars_become(small: tuple[Tokenizer, Limits]) -> None:
    tokenizer, limits = small
    compiled = counted(200).compile(tokenizer, limits=limits)
    before = cache_info(tokenizer).weight
    grow(compiled)
    assert cache_info(tokenizer).weight > 2 * before


def test_used_grammars_stay_below_the_bound_of_all_of_them(small: tuple[Tokenizer, Limits]) -> None:
    tokenizer, limits = small
    alive = []
    for n in range(84):
        compiled = counted(200 + n).compile(tokenizer, limits=limits)
        alive.append((compiled, grow(compiled, 60)))
        assert compiled.statistics()["all"] <= limits.grammar_memory
    assert sum(compiled.statistics()["memory"] for compiled, _ in alive) <= limits.grammar_memory
    assert any(compiled.statistics()["rows"] == 0 for compiled, _ in alive)


def crowded(kibibytes: int, count: int = 2) -> list[Any]:
    """Matchers of grammars whose tables do not fit into the memory that they share."""
    tokenizer = Tokenizer([*(bytes([byte]) for byte in range(256)), b"<eos>"], [256])
    vocabulary = NativeVocabulary(tokenizer, Limits(shared_memory=kibibytes << 10))
    source, matchers = random.Random(1), []
    for _ in range(count):
        words = [f'"{"".join(source.choices("abcdef", k=20))}"' for _ in range(200)]
        groups = (" | ".join(words[at : at + 50]) for at in range(0, 200, 50))  # longer ones share prefixes
        program = Grammar.from_lark(f"start: ({') | ('.join(groups)})").program
        matchers.append(NativeGrammar(program, vocabulary, LIMITS).matcher())
    return matchers


def finishes(matcher: Any, each: int = 1000) -> bool:
    """Whether the matcher, which may do `each` of work, accepts a token now."""
    try:
        assert matcher.accept(ord("f"), Work(each, each))
    except UnfinishedError:
        return False
    return True


@pytest.mark.parametrize("kibibytes", [68, 76])
def test_building_tables_again_in_too_little_memory_gains_no_work(kibibytes: int) -> None:
    matchers = crowded(kibibytes)
    for matcher in 4 * matchers:
        work = Work(2000, 1_000_000)
        with contextlib.suppress(UnfinishedError):
            matcher.accept(ord("f"), work)
        assert 0 <= 1_000_000 - work.left <= 2000
    assert all(matcher.grammar.statistics()["rebuilt"] for matcher in matchers)


@pytest.mark.parametrize("count", [2, 5])
def test_texts_whose_tables_do_not_fit_together_finish_one_after_the_other(count: int) -> None:
    left = crowded(72, count)
    for _ in range(30):
        left = [matcher for matcher in left if not finishes(matcher)]
    assert not left


def test_a_text_that_is_not_continued_does_not_hold_up_others_for_ever() -> None:
    first, second = crowded(72)
    assert not finishes(first)
    assert any(finishes(second) for _ in range(100))


def test_a_text_that_is_gone_holds_up_no_other() -> None:
    first, second = crowded(72)
    assert not finishes(first)
    assert not finishes(second)
    del first
    assert any(finishes(second) for _ in range(5))


def test_a_text_with_too_little_memory_for_one_mask_ends_with_the_limit() -> None:
    tokenizer = Tokenizer([bytes([byte]) for byte in range(256)], [0])
    vocabulary = NativeVocabulary(tokenizer, Limits(shared_memory=210 << 10))
    grammar = Grammar.from_regex(r"(\w|\d|[^a-k]){1,900}b")
    matcher = NativeGrammar(grammar.program, vocabulary, LIMITS).matcher()

    def read_on() -> None:
        for _ in range(60):
            in_parts(partial(matcher.fill_bitmask, np.zeros((1, 8), np.int32), 0), 3000, 300)
            in_parts(partial(matcher.accept, ord("a")), 3000, 300)

    with pytest.raises(GrammarLimitError, match=r"Limits\.shared_memory"):
        read_on()


def test_dropped_tables_are_built_again(small: tuple[Tokenizer, Limits]) -> None:
    tokenizer, limits = small
    first = counted(150).compile(tokenizer, limits=limits)
    matcher = grow(first, 100)  # the heaviest are dropped first
    expected = filled(matcher, len(tokenizer))
    n = 300
    while first.statistics()["rows"]:
        grow(counted(n := n + 1).compile(tokenizer, limits=limits), 60)
        assert n < 400
    assert filled(matcher, len(tokenizer)) == expected
    assert matcher.accept(ord("b"))


def test_the_cache_evicts_grammars_that_have_become_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.grammar.compiled.MAX_BYTES", 1 << 20)
    tokenizer = Tokenizer([*(bytes([byte]) for byte in range(256)), b"aa"], [0])
    programs = [counted(100 + n).program for n in range(24)]
    for program in programs:
        compiled = compiled_grammar(program, tokenizer)
        grow(compiled, 80)
        compiled_grammar(counted(7).program, tokenizer)
    info = cache_info(tokenizer)
    assert info.size < len(programs)
    clear_cache(tokenizer)


# --- locks ----------------------------------------------------------------------------------------


def test_masks_are_filled_while_another_thread_compiles(tokenizer: Tokenizer) -> None:
    """The slow grammar is refused for its work; a mask in between needs none of its locks."""
    patterns = ["^(a|b)*a(a|b){18}$", "^(a|b)*b(a|b){17}$"]
    excluded = {"anyOf": [{"pattern": p} for p in patterns]}
    slow = Grammar.from_json_schema({"type": "string", "pattern": "^[ab]{40}$", "not": excluded})
    vocabulary = NativeVocabulary(tokenizer, LIMITS)
    matcher = NativeGrammar(Grammar.from_regex("[ab]+").program, vocabulary, LIMITS).matcher()
    filled(matcher, len(tokenizer))
    started, refused = threading.Event(), []

    def compile_slowly() -> None:
        started.set()
        with pytest.raises(GrammarLimitError, match="limit of work"):
            NativeGrammar(slow.program, vocabulary, Limits(work=20_000_000))
        refused.append(True)

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    started.wait()
    filled_meanwhile = 0
    while thread.is_alive():
        filled(matcher, len(tokenizer))
        filled_meanwhile += thread.is_alive()
    thread.join()
    assert refused
    assert filled_meanwhile > 10


def test_a_refused_grammar_leaves_the_shared_tables_as_they_were(tokenizer: Tokenizer) -> None:
    vocabulary = NativeVocabulary(tokenizer, LIMITS)
    known = NativeGrammar(Grammar.from_regex("[ab]+").program, vocabulary, LIMITS)
    before = known.statistics()["shared"]
    slow = Grammar.from_json_schema({"type": "string", "allOf": [{"pattern": "^(a|b)*a(a|b){9}$"}] * 2})
    with pytest.raises(GrammarLimitError):
        NativeGrammar(slow.program, vocabulary, Limits(work=500))
    assert known.statistics()["shared"] == before
