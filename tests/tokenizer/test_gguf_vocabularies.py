"""llama.cpp's own vocabularies, with the texts and ids by which it tests itself: `.ci/peers` fetches them."""

import sys
from pathlib import Path

import pytest

from engine_sampler.tokenizer import Tokenizer

VOCABULARIES = sorted(Path(sys.prefix, "vocabularies").glob("ggml-vocab-*.gguf"))
if not VOCABULARIES:
    pytest.skip("llama.cpp's vocabularies are there in .ci/peers alone", allow_module_level=True)

NOT_EXACT = ("nomic-bert-moe",)
"""Of kinds that `encode` takes the longest match for."""
WITH_PREFIX = ("baichuan", "bert-bge", "llama-spm", "phi-3")
"""Those that begin a text with a blank that it does not have."""


def name_of(path):
    return path.stem.removeprefix("ggml-vocab-")


def cases_of(path):
    """Texts with their ids; none for some files."""
    texts, ids = path.with_suffix(".gguf.inp"), path.with_suffix(".gguf.out")
    if not texts.exists():
        return []
    separator = "\n__ggml_vocab_test__\n"
    parts = texts.read_bytes().decode().removesuffix(separator).split(separator)
    lines = ids.read_text(encoding="utf-8").splitlines()
    assert len(parts) == len(lines)
    return [(part, [int(i) for i in line.split()]) for part, line in zip(parts, lines, strict=True)]


def test_all_of_them_are_there():
    assert len(VOCABULARIES) == 19
    assert sum(bool(cases_of(path)) for path in VOCABULARIES) == 15


@pytest.mark.parametrize("path", VOCABULARIES, ids=name_of)
def test_every_text_gets_llama_cpps_ids(path):
    tokenizer = Tokenizer.from_gguf(path)
    if name_of(path) in NOT_EXACT:
        with pytest.warns(UserWarning, match="is encoded by the longest match"):
            tokenizer.encode(" a")
        return
    for text, ids in cases_of(path):
        assert tokenizer.encode(text) == ids


@pytest.mark.parametrize("path", VOCABULARIES, ids=name_of)
def test_a_run_of_line_ends_gets_llama_cpps_ids(path):
    llama_cpp = pytest.importorskip("llama_cpp")
    if name_of(path) in NOT_EXACT:
        return
    tokenizer = Tokenizer.from_gguf(path)
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    for length in range(1, 40):
        text = "a" + "\n" * length + "b"
        assert tokenizer.encode(text) == model.tokenize(text.encode(), add_bos=False, special=False)
    model.close()


@pytest.mark.parametrize("path", VOCABULARIES, ids=name_of)
def test_certain_ids_are_the_first_ones_of_each_longer_text(path):
    tokenizer = Tokenizer.from_gguf(path)
    if not tokenizer.has_encoding:
        return
    certain = 0
    for text in (
        '{"name": "get_weather", "arguments": {"city": "',
        "<tool_call>\n<function=get_weather>\n",
        "Paris été 東京  ",
    ):
        for end in range(1, len(text) + 1):
            ids = tokenizer.certain_ids(text[:end].encode())
            certain += len(ids)
            for more in (
                "",
                "s",
                "ing it",
                " of",
                "  ",
                "\n\nThe",
                '"}',
                '": {',
                "1",
                "23",
                "été",
                "东京",
                "_a",
                "<|x|>",
            ):
                assert tokenizer.encode(text[:end] + more)[: len(ids)] == ids
        assert tokenizer.certain_ids(text.encode(), is_whole=True) in ([], tokenizer.encode(text))
    assert (certain > 100) is (name_of(path) not in WITH_PREFIX)
