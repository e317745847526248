"""GBNF compared with llama.cpp's own grammar engine: the same tokens are allowed along random texts.

Left out of the comparison, because the two differ by design: special tokens, whose names llama.cpp matches as
text; the token of a NUL, which it never allows; bytes that begin no character; and positions inside one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")

import llama_cpp.llama_cpp as lib
import tiny_gguf
from engine_sampler_llama_cpp import from_request, tokenizer_of

from engine_sampler import Grammar, GrammarError, ParameterError, Tokenizer
from engine_sampler.contract import unpack_bitmask
from engine_sampler.grammar.lark.gbnf import read_gbnf
from tests.grammar.lark.test_gbnf import CONFIGURATION
from tests.parity.llama import LlamaSampler

GRAMMARS = [
    CONFIGURATION,
    'root ::= (" the" | " cat" | "ca" "t")+ [.:]',
    'root ::= [a-z ]{3,9} ("s" | "é"{2,3}) [^\\r\\n]* "\\n"',
    'root ::= item+ "*"\nitem ::= "{" [^{}]{0,4} "}" | "(" item? ")"',
    "root ::= [0-9]+ [à-ÿ€]? .{2}",
    r'root ::= ("\"" [^"\\] "\"" | "t"{2,4} "\x41"?)+ ("" | "x")',
    'root ::= a*\na ::= b | "s" b\nb ::= [^a-y\\n] | "sat" | " on"?  "a"',
]


@contextmanager
def engine(vocab: Any, text: str) -> Iterator[LlamaSampler | None]:
    """llama.cpp's grammar sampler, or None for a grammar that it refuses."""
    pointer = lib.llama_sampler_init_grammar(vocab, text.encode(), b"root")
    if not pointer:
        yield None
        return
    try:
        yield LlamaSampler(pointer)
    finally:
        lib.llama_sampler_free(pointer)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path: Path = tiny_gguf.write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
    import llama_cpp

    with closing(llama_cpp.Llama(str(path), n_ctx=32, verbose=False)) as model:
        yield model


def compare(text: str, llm: Any, random: np.random.Generator, paths: int) -> None:
    """Compare the tokens that the two engines allow along random texts of a grammar."""
    tokenizer = tokenizer_of(llm)
    size, eos = len(tokenizer), tokenizer.eos_token_ids[0]
    compiled = Grammar.from_gbnf(text).compile(tokenizer)
    compared = np.array([i == eos or _is_comparable(tokenizer, i) for i in range(size)])
    for _ in range(paths):
        matcher = compiled.matcher()
        written = b""
        with engine(lib.llama_model_get_vocab(llm.model), text) as theirs:
            assert theirs is not None
            for _ in range(25):
                bitmask = np.zeros((1, -(-size // 32)), np.int32)
                matcher.fill_bitmask(bitmask)
                ours = unpack_bitmask(bitmask[0], size)
                if _is_whole(written):
                    allowed = np.isfinite(theirs.apply(np.zeros(size, np.float32)).row(size))
                    assert np.array_equal(ours[compared], allowed[compared]), (text, written)
                usable = np.flatnonzero(ours & compared & (np.arange(size) != eos))
                if not len(usable):
                    break
                token = int(random.choice(usable))
                assert matcher.accept(token)
                theirs.accept([token])
                written += tokenizer.token_bytes[token]


def _is_comparable(tokenizer: Tokenizer, token_id: int) -> bool:
    excluded = (b"\x00", b"\xc0", b"\xc1", *(bytes([b]) for b in range(0xF5, 0x100)))
    return token_id not in tokenizer.special_token_ids and tokenizer.token_bytes[token_id] not in excluded


@pytest.mark.parametrize("text", GRAMMARS)
def test_the_same_tokens_are_allowed_along_random_texts(text: str, llm: Any) -> None:
    compare(text, llm, np.random.default_rng(GRAMMARS.index(text)), paths=6)


ATOMS = ['"a"', '" the"', '"é"', '"s."', '""', "[a-c]", "[^a-s\\n]", "[ce-g-]", ".", '"t"', "[à-é]"]
TIMES = ["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}"]


def random_grammar(random: np.random.Generator) -> str:
    """Rules whose parts are drawn at random; each rule may use those after it."""

    def choice(rule: int, depth: int) -> str:
        sequences = [sequence(rule, depth) for _ in range(int(random.integers(1, 4)))]
        return " | ".join(sequences)

    def sequence(rule: int, depth: int) -> str:
        return " ".join(part(rule, depth) for _ in range(int(random.integers(0, 4))))

    def part(rule: int, depth: int) -> str:
        kind = random.random()
        if kind < 0.2 and depth:
            atom = f"({choice(rule, depth - 1)})"
        elif kind < 0.4 and rule < 3:
            atom = f"r{random.integers(rule + 1, 4)}"
        else:
            atom = str(random.choice(ATOMS))
        return atom if atom == '""' or not atom.strip("() |") else atom + str(random.choice(TIMES))

    rules = [f"r{i} ::= ({choice(i, 1)})" for i in range(4)]
    return "\n".join(['root ::= r0 | "x" root', *rules])


def test_the_same_tokens_are_allowed_by_random_grammars(llm: Any) -> None:
    random = np.random.default_rng(0)
    usable = 0
    for _ in range(50):
        text = random_grammar(random)
        with engine(lib.llama_model_get_vocab(llm.model), text) as theirs:
            refused = theirs is None
        if not refused:
            usable += 1
            compare(text, llm, random, paths=2)
    assert usable > 20


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "text",
    ["root = 1", 'root ::= "a', "root ::= x", 'a ::= "x"', 'root ::= "a"{,2}', 'root ::= ("a"',
     r'root ::= "\q"'],
)  # fmt: skip
def test_grammars_that_llama_cpp_refuses_are_refused(text: str, llm: Any) -> None:
    with engine(lib.llama_model_get_vocab(llm.model), text) as theirs:
        assert theirs is None
    with pytest.raises(GrammarError):
        read_gbnf(text)
    with pytest.raises(ParameterError, match="grammar: "):
        from_request({"grammar": text})


@pytest.mark.parametrize("text", ['root ::= "a"\n| "b"', 'root ::= a_b\na_b ::= "x"', 'root ::= ""*'])
def test_what_only_xgrammar_reads_is_read_too(text: str, llm: Any) -> None:
    with engine(lib.llama_model_get_vocab(llm.model), text) as theirs:
        assert theirs is None
    assert read_gbnf(text).rules
