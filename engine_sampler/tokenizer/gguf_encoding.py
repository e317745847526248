"""Encoding texts with the vocabulary of a GGUF file: its merges or scores become a `tokenizers.Tokenizer`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from ..base.cached import cached_property
from .pieces import SPACE

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How tokenizers since GPT-4's split a text before merging; they differ in how they split runs of digits."""

_FAMILIES = {
    "gpt-2": "gpt-2 phi-2 roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
    "gigachat mpt olmo jais trillion granite-docling a.x-4.0 mellum exaone4",
    "digits": "starcoder refact command-r smollm codeshell exaone minerva-7b",
    "dbrx": "dbrx smaug-bpe chatglm-bpe",
    "llama-3": "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 glm4",
    "qwen-2": "qwen2 deepseek-r1-qwen stablelm2 megrez kormo hunyuan",
}
FAMILY_OF = {pre: family for family, pres in _FAMILIES.items() for pre in pres.split()}
"""The family of rules for splitting a text before merging, by tokenizer.ggml.pre."""

_LIKE_GPT_2 = ("gpt-2", "digits")
"""Families that split as `tokenizers` does by default."""


class GgufEncoder:
    """Encodes texts with a `tokenizers.Tokenizer` that is built on first use."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def _tokenizer(self) -> Any:
        return self._build()

    def __call__(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def encoder_of(
    keys: Mapping[str, Any], user_defined: Collection[int], special: Collection[int]
) -> GgufEncoder | None:
    """The encoder for a file's keys, without "tokenizer.ggml."; None for unsupported kinds.

    It supports SentencePiece's BPE ("llama") and byte-level BPE ("gpt2") of the usual families, and needs
    `tokenizers`. RWKV needs none: its own rule is the longest match.
    """
    if importlib.util.find_spec("tokenizers") is None:
        return None
    tokens = {token: i for i, token in enumerate(keys["tokens"]) if i not in special}
    added = [keys["tokens"][i] for i in sorted(user_defined)]
    if keys["model"] == "llama" and "scores" in keys:
        prefix = keys.get("add_space_prefix", True)
        return GgufEncoder(partial(_by_scores, tokens, added, keys["scores"], prefix))
    family = FAMILY_OF.get(keys.get("pre", ""))
    if keys["model"] == "gpt2" and "merges" in keys and family is not None:
        return GgufEncoder(partial(_byte_level, tokens, added, _pairs(tokens, keys["merges"]), family))
    return None


def _by_scores(tokens: dict[str, int], added: list[str], scores: list[float], add_space: bool) -> Any:
    """SentencePiece's BPE: of all adjacent pairs that form a token, the one with the best score is merged."""
    from tokenizers import Tokenizer, models, normalizers

    merges = [
        (-scores[i], i, piece[:cut], piece[cut:])
        for piece, i in tokens.items()
        for cut in range(1, len(piece))
        if piece[:cut] in tokens and piece[cut:] in tokens
    ]
    pairs = [(left, right) for _, _, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(tokens, pairs, byte_fallback=True))
    spaces = normalizers.Replace(" ", SPACE)
    prefixed = [normalizers.Prepend(SPACE), spaces]
    tokenizer.normalizer = normalizers.Sequence(prefixed) if add_space else spaces
    return _with_added_tokens(tokenizer, added)


def _byte_level(tokens: dict[str, int], added: list[str], pairs: list[tuple[str, str]], family: str) -> Any:
    """Byte-level BPE: adjacent pairs are merged in the order of the merges, within a part of the text."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(tokens, pairs, ignore_merges=family == "llama-3"))
    parts: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=family in _LIKE_GPT_2)]
    if family == "digits":
        parts.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif family not in _LIKE_GPT_2:
        words = Regex(_WORDS.replace("DIGITS", "" if family == "qwen-2" else "{1,3}"))
        parts.insert(0, pre_tokenizers.Split(words, "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return _with_added_tokens(tokenizer, added)


def _pairs(tokens: Collection[str], merges: list[str]) -> list[tuple[str, str]]:
    """The merges as pairs; raises ValueError for one whose parts or whole are not tokens, at which
    `tokenizers` would panic."""
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    for left, right in pairs:
        if left not in tokens or right not in tokens or left + right not in tokens:
            raise ValueError(f"tokenizer.ggml.merges has {left!r} with {right!r}, which are not tokens")
    return pairs


def _with_added_tokens(tokenizer: Any, added: list[str]) -> Any:
    """`tokenizer` with the tokens that are matched in the text before anything else."""
    from tokenizers import AddedToken

    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    return tokenizer
