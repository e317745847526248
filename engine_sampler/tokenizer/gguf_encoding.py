"""Encoding texts with the vocabulary of a GGUF file: its merges or scores become a `tokenizers.Tokenizer`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..base.cached import cached_property
from .gguf_splits import LINES, SPLITTING_OF, Splitting
from .pieces import SPACE
from .table import warn_inexact


class Encoding(NamedTuple):
    """How texts are encoded with the vocabulary of a file."""

    encode: Callable[[str], list[int]] | None
    """None for the longest match."""
    inexact: str | None = None
    """Why that differs from llama.cpp's own encoding; None where it does not."""


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


def encoding_of(keys: Mapping[str, Any], user_defined: Collection[int], special: Collection[int]) -> Encoding:
    """The encoding for a file's keys, without "tokenizer.ggml."; those whose value is wrong have None.

    It is llama.cpp's for SentencePiece's BPE ("llama"), for byte-level BPE ("gpt2") of the kinds that
    `SPLITTING_OF` lists, for Gemma 4's and for WordPiece ("bert"), all of which need `tokenizers`; and for
    RWKV, whose own rule is the longest match.
    """
    if keys["model"] == "rwkv":
        return Encoding(None)
    reason = _why_inexact(keys)
    if reason is not None:
        return Encoding(None, reason)
    added = [text for i in sorted(user_defined) if _is_text(text := keys["tokens"][i])]
    return Encoding(GgufEncoder(partial(_build, _BUILDERS[keys["model"]], keys, added, frozenset(special))))


def _why_inexact(keys: Mapping[str, Any]) -> str | None:
    """Why texts cannot be encoded as llama.cpp does; None if they can."""
    model, pre = keys["model"], keys.get("pre", "default")
    if model not in _BUILDERS:
        return f"tokenizer.ggml.model={model!r} is encoded by the longest match"
    for name, value in {_NEEDED[model]: None, **keys}.items():
        if value is None:
            return f"tokenizer.ggml.{name} is missing, or has a wrong type or length"
    if model == "gpt2" and pre not in SPLITTING_OF:
        return f"tokenizer.ggml.pre={pre!r} is encoded by the longest match"
    if importlib.util.find_spec("tokenizers") is None:
        return "the package tokenizers is not installed"
    return None


def _build(
    build: Callable[..., Any], keys: Mapping[str, Any], added: list[str], special: Collection[int]
) -> Any:
    """The tokenizer of a vocabulary, with the tokens that are matched in a text before anything else."""
    from tokenizers import AddedToken

    tokenizer = build(keys, special)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    return tokenizer


def _is_text(token: str) -> bool:
    """Whether a token is valid UTF-8, without which `tokenizers` takes none."""
    return _BROKEN.search(token) is None


_BROKEN = re.compile("[\ud800-\udfff]")


def _by_scores(keys: Mapping[str, Any], special: Collection[int]) -> Any:
    """SentencePiece's BPE: of all adjacent pairs that form a token, the one with the best score is merged."""
    from tokenizers import Tokenizer, models, normalizers

    tokens = {token: i for i, token in enumerate(keys["tokens"]) if i not in special and _is_text(token)}
    merges = [
        (-keys["scores"][i], i, piece[:cut], piece[cut:])
        for piece, i in tokens.items()
        for cut in range(1, len(piece))
        if piece[:cut] in tokens and piece[cut:] in tokens
    ]
    pairs = [(left, right) for _, _, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(tokens, pairs, byte_fallback=True))
    spaces = normalizers.Replace(" ", SPACE)
    prefixed = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
    tokenizer.normalizer = prefixed if keys.get("add_space_prefix", True) else spaces
    return tokenizer


def _byte_level(keys: Mapping[str, Any], special: Collection[int]) -> Any:
    """Byte-level BPE: adjacent pairs are merged in the order of the merges, within a word.

    As in llama.cpp, `special` tokens may be the result of a merge.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    splitting = SPLITTING_OF[keys.get("pre", "default")]
    model = models.BPE(*_merges(keys), ignore_merges=splitting.keeps_whole_words)
    tokenizer = Tokenizer(model)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*_splits(splitting), to_bytes])
    return tokenizer


def _by_lines(keys: Mapping[str, Any], special: Collection[int]) -> Any:
    """Gemma 4's BPE: like byte-level BPE, but of characters, with names for the bytes of others."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(*_merges(keys), byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_splits(LINES))
    return tokenizer


def _by_words(keys: Mapping[str, Any], special: Collection[int]) -> Any:
    """WordPiece (BERT): the longest pieces that form each word, or the unknown token for the whole word.

    A word of more than `_LONGEST_WORD` characters is unknown, too: the work grows with their square. Korean
    syllables are split into their letters, as by BERT itself; llama.cpp keeps the first letter of each.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    tokens, unknown = keys["tokens"], keys["unknown_token_id"]
    ids = {_word_piece(token): i for i, token in enumerate(tokens) if _is_text(token)} | {_UNKNOWN: unknown}
    model = models.WordPiece(ids, unk_token=_UNKNOWN, max_input_chars_per_word=_LONGEST_WORD)
    tokenizer = Tokenizer(model)
    is_lower = keys.get("normalizer.lowercase", True)
    without_accents = keys.get("normalizer.strip_accents", is_lower)
    spaces = normalizers.Replace(Regex(r"\s"), " ")  # which BERT's normalizer takes for control characters
    cleaning = normalizers.BertNormalizer(lowercase=is_lower, strip_accents=without_accents)
    tokenizer.normalizer = normalizers.Sequence([spaces, cleaning])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


_LONGEST_WORD, _UNKNOWN = 100, "<unknown>"


def _word_piece(piece: str) -> str:
    """A piece of a GGUF file as in BERT's own: llama.cpp's begin words with "▁", BERT's go on with "##"."""
    return piece[1:] if piece.startswith(SPACE) else f"##{piece}"


_BUILDERS: Mapping[str, Callable[..., Any]] = {
    "llama": _by_scores,
    "gpt2": _byte_level,
    "gemma4": _by_lines,
    "bert": _by_words,
}
_NEEDED = {"llama": "scores", "gpt2": "merges", "gemma4": "merges", "bert": "unknown_token_id"}
"""The entry that each kind of vocabulary cannot be encoded without."""


def _splits(splitting: Splitting) -> list[Any]:
    """The steps that split a text into words."""
    from tokenizers import Regex, pre_tokenizers

    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in splitting.patterns]


def _merges(keys: Mapping[str, Any]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ids of all tokens, and the merges as pairs. Those whose parts or whole are not tokens would
    make `tokenizers` panic, and are left out; a warning tells of them."""
    ids = {token: i for i, token in enumerate(keys["tokens"]) if _is_text(token)}
    parts = (merge.partition(" ") for merge in keys["merges"])
    pairs = [(left, right) for left, _, right in parts]
    known = [(left, right) for left, right in pairs if left in ids and right in ids and left + right in ids]
    if len(known) < len(pairs):
        warn_inexact(f"{len(pairs) - len(known):,} entries of tokenizer.ggml.merges name no tokens")
    return ids, known
