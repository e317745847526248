"""Compiled grammars: cached, shared by threads, saved, pickled, bounded."""

from __future__ import annotations

import gc
import os
import pickle
import random
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar.cache import Cache
from engine_sampler.grammar.compiled import (
    CompiledGrammar,
    cache_info,
    clear_cache,
    compiled_grammar,
    prepare,
)
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.grammar import Grammar, clear_grammar_cache, grammar_cache_info
from engine_sampler.grammar.limits import Limits

WORDS = ["true", "false", "null", '":', '",', '{"', "}]", "12", "key", "é", "aa", "  "]
PIECES = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]
EOS, CALL = len(PIECES), len(PIECES) + 1

SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "integer"}, "list": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["key"],
}
TEXT = '{"list": [true, false, true], "key": -12}'

ENGINE = "ENGINE_SAMPLER_MASK_ENGINE"


def masks_of(matcher: Any) -> list[int]:
    """The words of the mask of the next token."""
    bitmask = allocate_bitmask(1, CALL + 1)
    matcher.fill_bitmask(bitmask)
    words: list[int] = bitmask[0].tolist()
    return words


def read_all(matcher: Any, text: str) -> None:
    """Read a text byte by byte, with a mask before each."""
    for byte in text.encode():
        masks_of(matcher)
        assert matcher.accept(byte)


@pytest.fixture
def tokenizer() -> Tokenizer:
    """A new one, for which nothing is cached yet."""
    return Tokenizer([*PIECES, b"<eos>", b"<call>"], [EOS], [CALL])


@pytest.fixture
def in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine in C, whatever the environment requests."""
    if native.load_library() is None:
        pytest.skip("the native library is missing")
    monkeypatch.setenv(ENGINE, "native")


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    clear_grammar_cache()
    yield
    clear_grammar_cache()


def grammars() -> list[Grammar]:
    """A grammar of every kind."""
    structures = [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}]
    return [
        Grammar.from_json_schema(SCHEMA),
        Grammar.from_json_object(),
        Grammar.from_lark('start: "a"~2..4 item* <call>?\nitem: /[0-9]+/\n%ignore " "'),
        Grammar.from_regex(r"(?i)[a-f]{2,5}(-\d+)?"),
        Grammar.from_choices(["true", "trust", "false"]),
        Grammar.from_structural_tag({"structures": structures, "triggers": ["<f"]}),
    ]


def mask(matcher: Any, tokens: int = CALL + 1) -> bytes:
    """The bitmask of the next token."""
    bitmask = np.zeros((1, (tokens + 31) // 32), np.int32)
    matcher.fill_bitmask(bitmask, 0)
    return bitmask.tobytes()


def random_text(matcher: Any, seed: int, steps: int = 40) -> list[tuple[bytes, int]]:
    """A random text under a grammar: the mask and the token of each step."""
    source, recorded = random.Random(seed), []
    for _ in range(steps):
        bits = mask(matcher)
        allowed = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist()
        token = source.choice([one for one in allowed if one != EOS] or allowed)
        recorded.append((bits, token))
        assert matcher.accept(token)
        if matcher.is_terminated():
            break
    return recorded


def test_equal_arguments_give_the_same_grammar() -> None:
    before = grammar_cache_info()
    first = Grammar.from_json_schema(SCHEMA)
    assert Grammar.from_json_schema(dict(SCHEMA)) is first
    assert Grammar.from_json_schema(SCHEMA, formats="annotate") is not first
    after = grammar_cache_info()
    assert (after.hits - before.hits, after.misses - before.misses, after.size) == (1, 2, 2)
    assert after.weight >= first.weight > 0


def test_the_weight_is_that_of_its_tables_and_of_what_it_added_to_the_shared_ones(
    tokenizer: Tokenizer,
) -> None:
    compiled = Grammar.from_json_schema(SCHEMA).compile(tokenizer)
    compiled.matcher().fill_bitmask(np.zeros((1, (len(tokenizer) + 31) // 32), np.int32))
    if counts := compiled.statistics():
        assert compiled.weight() == counts["memory"] + counts["expressions"] > 0


def test_a_grammar_that_cannot_be_read_is_not_cached() -> None:
    for _ in range(2):
        with pytest.raises(GrammarError):
            Grammar.from_regex("(")
    assert grammar_cache_info().size == 0


@pytest.mark.parametrize("same", [True, 1.0])
def test_what_only_equals_an_allowed_number_is_refused_although_that_is_cached(same: Any) -> None:
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": SCHEMA}}
    for read, value in ((Grammar.from_json_schema, SCHEMA), (Grammar.from_structural_tag, tag)):
        read(value, whitespace=1)
        with pytest.raises(GrammarError, match=f"whitespace={same} is not allowed"):
            read(value, whitespace=same)
    with pytest.raises(ValueError, match=f"Limits.work={same} is not allowed: a whole number from 1"):
        Limits(work=same)


def test_values_that_are_written_alike_in_json_mean_the_same_in_any_order() -> None:
    for schema in ({"enum": ("a", "b")}, {"enum": ["a", "b"]}, '{"enum": ["a", "b"]}'):
        clear_grammar_cache()
        assert Grammar.from_json_schema(schema) == Grammar.from_json_schema({"enum": ["a", "b"]})
        assert Grammar.from_json_schema(schema).check('"b"').valid


def test_a_grammar_with_imports_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "other.lark"
    path.write_text('WORD: "a"')
    first = Grammar.from_lark("start: WORD\n%import other.WORD", import_paths=[str(tmp_path)])
    path.write_text('WORD: "b"')
    assert Grammar.from_lark("start: WORD\n%import other.WORD", import_paths=[str(tmp_path)]) != first


def test_a_compiled_grammar_is_cached_for_its_tokenizer(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_regex("a+")
    first = grammar.compile(tokenizer)
    assert grammar.compile(tokenizer) is first
    assert Grammar.from_regex("a+").compile(tokenizer) is first
    assert grammar.compile(Tokenizer(PIECES)) is not first
    assert cache_info(tokenizer)[:3] == (2, 1, 1)
    clear_cache(tokenizer)
    assert cache_info(tokenizer).size == 0
    assert grammar.compile(tokenizer) is not first
    assert first.matcher().accept_bytes(b"aa")


def test_what_grammars_share_is_counted_and_freed(tokenizer: Tokenizer, in_c: None) -> None:
    prepare(tokenizer)
    at_first = cache_info(tokenizer).shared
    kept = compiled_grammar(Grammar.from_json_schema(SCHEMA).program, tokenizer).matcher()
    read_all(kept, TEXT)
    for number in range(30):
        schema = {
            "properties": {"key": {"pattern": f"^[a-z]{{{number},{number + 40}}}$"}},
            "required": ["key"],
        }
        matcher = Grammar.from_json_schema(schema).compile(tokenizer).matcher()
        read_all(matcher, '{"key": "' + "a" * (number + 3))
    info = cache_info(tokenizer)
    assert info.shared > 1.5 * at_first
    assert info.max_shared == Limits().shared_memory
    expected = kept.fork()
    clear_cache(tokenizer)
    assert cache_info(tokenizer).shared <= at_first
    assert masks_of(kept) == masks_of(expected)
    assert kept.rollback(3) is None
    read_all(kept, TEXT[-3:])
    assert kept.is_accepting()


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_grammar_weighs_more_with_each_mask(
    tokenizer: Tokenizer, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENGINE, engine)
    if engine == "native" and native.load_library() is None:
        pytest.skip("the native library is missing")
    grammar = Grammar.from_json_schema(SCHEMA).compile(tokenizer)
    weights = [cache_info(tokenizer).weight]
    matcher = grammar.matcher()
    for text in (TEXT[:10], TEXT[10:30], TEXT[30:]):
        read_all(matcher, text)
        weights.append(cache_info(tokenizer).weight)
    assert weights[0] < weights[1] < weights[-1]
    assert weights == sorted(weights)


def test_other_limits_make_another_compiled_grammar(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_regex("a+")
    assert grammar.compile(tokenizer) is not grammar.compile(tokenizer, limits=Limits(work=1_000_000))


@pytest.mark.parametrize("grammar", [Grammar.from_regex("a+"), Grammar.from_json_schema(SCHEMA)])
def test_a_tokenizer_is_freed_although_grammars_are_cached_for_it(grammar: Grammar) -> None:
    tokenizer = Tokenizer(PIECES)
    matcher = grammar.compile(tokenizer).matcher()
    freed = weakref.ref(tokenizer)
    vocabulary = weakref.ref(grammar.compile(tokenizer)._compiled.vocabulary)
    del tokenizer, matcher
    gc.collect()
    assert (freed(), vocabulary()) == (None, None)


def test_a_copy_of_a_tokenizer_has_nothing_that_is_kept_for_it(tokenizer: Tokenizer) -> None:
    prepare(tokenizer)
    assert len(pickle.dumps(tokenizer)) < 10_000
    assert pickle.loads(pickle.dumps(tokenizer)).kept("grammars", lambda: None) is None


def test_a_cache_keeps_the_most_recently_used_values() -> None:
    cache: Cache[str] = Cache(2, 100, len)
    for key in "abac":
        cache.get(key, lambda key=key: key * 10)
    computed: list[str] = []
    for key in "acb":
        cache.get(key, lambda key=key: computed.append(key) or key)  # type: ignore[func-returns-value]
    assert computed == ["b"]


def test_a_cache_is_bounded_by_weight_but_keeps_the_newest() -> None:
    cache: Cache[str] = Cache(10, 25, len)
    for key in "abc":
        cache.get(key, lambda key=key: key * 10)
    assert cache.info()[2:6] == (2, 10, 20, 25)
    cache.get("large", lambda: "x" * 1000)
    assert (cache.info().size, cache.info().weight) == (1, 1000)


def test_the_oldest_of_many_grammars_is_evicted(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine_sampler.grammar import compiled as module

    monkeypatch.setattr(module, "MAX_GRAMMARS", 3)
    grammars = [Grammar.from_choices([f"choice {i}"]) for i in range(5)]
    compiled = [grammar.compile(tokenizer) for grammar in grammars]
    info = cache_info(tokenizer)
    assert (info.size, info.max_size) == (3, 3)
    assert grammars[4].compile(tokenizer) is compiled[4]
    assert grammars[0].compile(tokenizer) is not compiled[0]
    assert compiled[1].matcher().accept_bytes(b"choice 1")


def test_threads_that_compile_the_same_grammar_share_one(tokenizer: Tokenizer) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Grammar.from_json_schema(SCHEMA).compile(tokenizer), range(32)))
    cached = Grammar.from_json_schema(SCHEMA).compile(tokenizer)
    assert all(one is cached for one in found)
    assert cache_info(tokenizer).size == 1


def test_threads_that_share_a_grammar_see_the_masks_of_a_single_thread(tokenizer: Tokenizer) -> None:
    alone = Tokenizer(tokenizer.token_bytes, [EOS], [CALL])
    for grammar in grammars():
        shared = grammar.compile(tokenizer)
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda seed, one=shared: random_text(one.matcher(), seed), range(8)))
        single = grammar.compile(alone)
        assert together == [random_text(single.matcher(), seed) for seed in range(8)]


def test_a_saved_grammar_is_the_same_after_loading(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for number, grammar in enumerate(grammars()):
        path = tmp_path / f"{number}.grammar"
        grammar.save(path)
        loaded = Grammar.load(path)
        assert loaded == grammar
        assert (loaded.kind, loaded.program, loaded.special_names) == (
            grammar.kind,
            grammar.program,
            grammar.special_names,
        )
        assert Grammar.from_file(path) == grammar
        fresh = CompiledGrammar(loaded.program, tokenizer, special_names=loaded.special_names)
        assert random_text(fresh.matcher(), number) == random_text(
            grammar.compile(tokenizer).matcher(), number
        )


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": "another 1"}', '{"format": "engine_sampler grammar 1"}']
)
def test_any_other_file_is_not_a_saved_grammar(content: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.grammar"
    path.write_text(content)
    with pytest.raises(GrammarError, match="is not a saved grammar"):
        Grammar.load(path)


@pytest.mark.usefixtures("in_c")
def test_a_saved_grammar_that_was_altered_is_refused_or_read_without_a_crash(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "changed.grammar"
    Grammar.from_json_schema(SCHEMA).save(path)
    text = path.read_text()
    source = random.Random(1)
    for _ in range(60):
        at = source.randrange(len(text))
        path.write_text(text[:at] + source.choice("0123456789,-[]") + text[at + 1 :])
        try:
            matcher = Grammar.load(path).compile(tokenizer).matcher()
            matcher.accept_bytes(TEXT.encode())
            mask(matcher)
        except (GrammarError, ValueError):
            continue


def test_grammars_and_compiled_grammars_can_be_pickled(tokenizer: Tokenizer) -> None:
    for number, grammar in enumerate(grammars()):
        assert pickle.loads(pickle.dumps(grammar)) == grammar
        one = grammar.compile(tokenizer)
        other = pickle.loads(pickle.dumps(one))
        assert other is not one
        assert other.program == grammar.program
        assert random_text(other.matcher(), number) == random_text(one.matcher(), number)


def test_special_tokens_have_the_ids_of_the_tokenizer(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_lark("start: /a*/ <call> <[1,5-9]>?")
    matcher = grammar.compile(tokenizer).matcher()
    assert matcher.accept(ord("a"))
    assert not matcher.fork().accept_bytes(b"<call>")
    assert matcher.accept(CALL)
    assert matcher.is_accepting()
    other = Tokenizer([b"<call>", *PIECES], (), [0])
    assert grammar.compile(other).matcher().accept(0)


def test_a_token_id_beyond_the_vocabulary_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="token"):
        Grammar.from_lark("start: <[1-1000]>").compile(tokenizer)


def test_a_special_token_that_the_tokenizer_lacks_is_named() -> None:
    grammar = Grammar.from_lark("start: <call>")
    with pytest.raises(GrammarError, match="'<call>'"):
        grammar.compile(Tokenizer(PIECES))


def test_the_environment_chooses_the_engine(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE, "reference")
    one = Grammar.from_json_schema(SCHEMA).compile(tokenizer)
    assert (one.engine, one.statistics()) == ("reference", {})
    assert one.matcher().accept_bytes(TEXT.encode())


def test_an_unknown_engine_is_refused(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE, "fast")
    with pytest.raises(GrammarError, match="auto, native or reference"):
        prepare(tokenizer)


def test_a_missing_library_is_an_error_only_if_it_is_requested(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "load_library", lambda: None)
    monkeypatch.setenv(ENGINE, "native")
    with pytest.raises(GrammarError, match="no native grammar engine"):
        prepare(tokenizer)
    monkeypatch.setenv(ENGINE, "auto")
    assert Grammar.from_regex("a").compile(tokenizer).engine == "reference"


@pytest.mark.usefixtures("in_c")
def test_both_engines_give_the_same_masks(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Tokenizer(tokenizer.token_bytes, [EOS], [CALL])
    prepare(tokenizer)
    monkeypatch.setenv(ENGINE, "reference")
    prepare(other)
    for number, grammar in enumerate(grammars()):
        fast, slow = grammar.compile(tokenizer), grammar.compile(other)
        assert (fast.engine, slow.engine) == ("native", "reference")
        assert random_text(fast.matcher(), number, 12) == random_text(slow.matcher(), number, 12)


@pytest.mark.usefixtures("in_c")
def test_tables_that_reach_their_memory_are_rebuilt_and_no_mask_changes(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_lark('start: "(" start ")" | "[" start "]" | "{" start "}" | "x"')
    small = grammar.compile(tokenizer, limits=Limits(memory=1_000_000))
    large = grammar.compile(Tokenizer(tokenizer.token_bytes, [EOS], [CALL]))
    source = random.Random(2)
    pairs = []
    for _ in range(40):
        pair = [small.matcher(), large.matcher()]
        text = "".join(source.choices("([{", k=120)).encode()
        assert all(matcher.accept_bytes(text[:60]) and matcher.accept_bytes(text[60:]) for matcher in pair)
        assert mask(pair[0]) == mask(pair[1])
        pairs.append((text, pair))
    assert small.statistics()["rebuilt"] > 0
    assert small.statistics()["memory"] < 2_000_000
    assert large.statistics()["rebuilt"] == 0
    for text, pair in pairs:
        for matcher in pair:
            matcher.rollback(1)
            closing = text[:60][::-1].translate(bytes.maketrans(b"([{", b")]}"))
            assert matcher.fork().accept_bytes(b"x" + closing)
            assert not matcher.fork().accept_bytes(b"x" + closing + b")")
        assert mask(pair[0]) == mask(pair[1])


@pytest.mark.usefixtures("in_c")
def test_a_text_that_exceeds_the_memory_is_refused_and_leaves_the_matcher_unchanged(
    tokenizer: Tokenizer,
) -> None:
    grammar = Grammar.from_lark('start: "(" start ")" | "x"')
    matcher = grammar.compile(tokenizer, limits=Limits(memory=400_000)).matcher()
    with pytest.raises(GrammarLimitError, match="memory"):
        matcher.accept_bytes(b"(" * 100_000)
    assert matcher.accept_bytes(b"(x)")
    assert matcher.is_accepting()


@pytest.mark.usefixtures("in_c")
def test_a_call_that_exceeds_the_work_is_refused_and_leaves_the_matcher_unchanged(
    tokenizer: Tokenizer,
) -> None:
    grammar = Grammar.from_lark('start: start start | "a" | "b"')
    matcher = grammar.compile(tokenizer, limits=Limits(work=20_000)).matcher()
    with pytest.raises(GrammarLimitError, match="work"):
        matcher.accept_bytes(b"ab" * 2000)
    assert matcher.accept_bytes(b"ab")
    assert matcher.is_accepting()


@pytest.mark.usefixtures("in_c")
def test_a_grammar_that_exceeds_the_memory_is_refused(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_choices([f"choice number {i}" for i in range(2000)])
    with pytest.raises(GrammarLimitError, match="memory"):
        grammar.compile(tokenizer, limits=Limits(memory=10_000)).matcher().accept_bytes(b"choice number 1")


def test_forced_tokens_are_those_that_must_follow(tokenizer: Tokenizer) -> None:
    matcher = Grammar.from_choices(["key: true", "key: trust"]).compile(tokenizer).matcher()
    forced = matcher.forced_tokens()
    assert b"".join(PIECES[token] for token in forced) == b"key: tru"[: sum(len(PIECES[t]) for t in forced)]
    assert forced[0] == PIECES.index(b"key")
    assert matcher.validate(forced) == len(forced)
    assert all(matcher.accept(token) for token in forced)
    assert matcher.accept_bytes(b"key: trust"[sum(len(PIECES[t]) for t in forced) :])
    assert matcher.forced_tokens() == []


def test_nothing_is_forced_where_there_is_a_choice(tokenizer: Tokenizer) -> None:
    assert Grammar.from_regex("a|b").compile(tokenizer).matcher().forced_tokens() == []
    assert Grammar.from_regex("a?").compile(tokenizer).matcher().forced_tokens() == []


def test_another_process_loads_the_same_grammar(tmp_path: Path) -> None:
    path = tmp_path / "tag.grammar"
    grammars()[-1].save(path)
    code = f"from engine_sampler.grammar.grammar import Grammar; print(Grammar.load({str(path)!r}).key)"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == grammars()[-1].key


def test_the_function_that_pickles_call_returns_the_cached_grammar(tokenizer: Tokenizer) -> None:
    grammar = Grammar.from_regex("a")
    assert compiled_grammar(grammar.program, tokenizer) is grammar.compile(tokenizer)


@pytest.mark.parametrize("value", [None, "gpt2"])
def test_what_is_no_tokenizer_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"tokenizer=.* is not allowed: a Tokenizer"):
        Grammar.from_regex("a").compile(value)
