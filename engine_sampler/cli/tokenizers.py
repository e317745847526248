"""The vocabulary that a command is given as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..tokenizer import Tokenizer

_ALLOWED = "a tokenizer.json, a .gguf, a .model of SentencePiece, a Tekken file, or a JSON list of tokens"


def tokenizer_from(path: str | None) -> Tokenizer:
    """The tokenizer of a file; without one, every byte is a token. Raises ValueError for any other file."""
    if path is None:
        return Tokenizer([bytes([byte]) for byte in range(256)])
    file = Path(path)
    if file.is_dir():
        file /= "tokenizer.json"
    if file.suffix == ".gguf":
        return Tokenizer.from_gguf(file)
    if file.suffix == ".model":
        return Tokenizer.from_sentencepiece(str(file))
    return _from_json(file)


def _from_json(file: Path) -> Tokenizer:
    content = _content(file)
    if isinstance(content, list) and all(isinstance(token, str) for token in content):
        return Tokenizer([token.encode("utf-8", "surrogatepass") for token in content])
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        import tokenizers

        return Tokenizer.from_tokenizers(tokenizers.Tokenizer.from_file(str(file)))
    if isinstance(content, dict) and isinstance(content.get("vocab"), list):
        return Tokenizer.from_mistral_common(str(file))
    raise ValueError(f"--tokenizer {file} is not allowed: {_ALLOWED}")


def _content(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"--tokenizer {file} is not allowed: {_ALLOWED}") from None
