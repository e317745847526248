"""The vocabulary that a command is given as a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine_sampler.cli.tokenizers import tokenizer_from

from ..tokenizer.gguf_files import sentence_piece_keys, write_gguf


def test_without_a_file_every_byte_is_a_token() -> None:
    assert tokenizer_from(None).token_bytes == tuple(bytes([byte]) for byte in range(256))


def test_a_list_of_tokens_is_a_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps(["a", "é", ""]))
    assert tokenizer_from(str(tmp_path / "words.json")).token_bytes == (b"a", "é".encode(), b"")


def test_a_gguf_file_is_read(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf", sentence_piece_keys())
    assert len(tokenizer_from(str(path))) > 256


def test_a_tokenizer_json_is_read_by_its_name_or_its_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokenizer_from(str(path)).token_bytes == (b"a", b"b", b"ab")


@pytest.mark.parametrize("content", ["{}", "[1]", "no JSON", '{"model": 3}', "3"])
def test_another_file_is_refused_by_its_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(content)
    with pytest.raises(ValueError, match=r"--tokenizer .*odd.json is not allowed: a tokenizer.json, a .gguf"):
        tokenizer_from(str(tmp_path / "odd.json"))
    with pytest.raises(OSError, match="absent"):
        tokenizer_from(str(tmp_path / "absent.json"))
