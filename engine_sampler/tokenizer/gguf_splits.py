r"""How llama.cpp splits a text into words before it merges, by the key tokenizer.ggml.pre.

Each entry is a sequence of regular expressions. The first splits the text at its matches, which are words of
their own, as is what lies between two of them; each further one splits these words again. They are written
for `tokenizers`, whose regular expressions are Oniguruma's, and mean what llama.cpp does rather than what a
model's own files say: where it takes upper and lower case as one, so do they.
Source: llama-vocab.cpp and unicode.cpp of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Splitting(NamedTuple):
    """How a text becomes words before merging."""

    patterns: tuple[str, ...]
    keeps_whole_words: bool = False
    """A word that is a token is not merged from its parts."""


_ENDINGS = r"'[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL]"


def _words(
    letters: str = r"[^\r\n\p{L}\p{N}]?\p{L}+",
    digits: str = r"\p{N}",
    others: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    line_ends: str = r"\s*[\r\n]+",
    spaces: str = r"\s+(?!\S)|\s+",
    endings: str = _ENDINGS,
) -> str:
    """The expression of tokenizers since GPT-4's, by its alternatives; they differ in one or two of them."""
    return "|".join(part for part in (endings, letters, digits, others, line_ends, spaces) if part)


def _cased_words(letter: str, ending: str) -> str:
    """Words that begin in upper case and go on in lower case; only ASCII has case here."""
    upper, lower = rf"(?:(?![a-z]){letter})", rf"(?:(?![A-Z]){letter})"
    first = r"[^\r\n\p{L}\p{N}]?"
    return f"{first}{upper}*{lower}+{ending}|{first}{upper}+{lower}*{ending}"


_ENDING = f"(?:{_ENDINGS})?"
_GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_UP_TO_THREE = r"\p{N}{1,3}"
_WITH_MARKS = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
_WITH_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_WITH_ENDINGS = _WITH_MARKS + _ENDING
_THREES_FROM_THE_RIGHT = r"\P{N}*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
_LINES = r"[^\n]+|\n+"

_CHINESE = r"[\x{0800}-\x{9FA5}\x{AC00}-\x{D7FF}]+"
_CHINESE_AND_KANA = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+"
_CASED = (
    r"(?:(?![\x{0560}-\x{0588}\x{10C7}-\x{10FF}\x{1C80}-\x{1C8F}\x{2D00}-\x{2D2F}\x{A790}-\x{A7FF}\x{AB30}-\x{AB6F}"
    r"\x{10570}-\x{105BF}\x{10D50}-\x{10D8F}\x{16E40}-\x{1DFFF}])[\p{Lu}\p{Ll}\p{Lt}])"
)
"""Letters with case, but those of the blocks that DeepSeek's tokenizer does not know."""
_PUNCTUATION = r"[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]"
_ASCII_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_DEEPSEEK_3_WORDS = rf"{_ASCII_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
_SENTENCE_PARTS = r" ?[^(\s|.,!?…。，、।۔،)]+"

_FAMILIES: tuple[tuple[str, Splitting], ...] = (
    (
        "gpt-2 phi-2 roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code gigachat mpt "
        "olmo jais trillion granite-docling a.x-4.0 mellum exaone4 modern-bert",
        Splitting((_GPT_2,)),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        Splitting((r"\p{N}", _GPT_2)),
    ),
    ("default", Splitting((r"[\p{P}$+<=>^~|]+", _GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"))),
    ("falcon", Splitting((r"[\p{P}$+<=>^~|`]+", _GPT_2, "[0-9][0-9][0-9]"))),
    ("dbrx smaug-bpe chatglm-bpe", Splitting((_words(digits=_UP_TO_THREE),))),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5",
        Splitting((_words(digits=_UP_TO_THREE),), keeps_whole_words=True),
    ),
    (
        "jais-2",
        Splitting(
            (
                _words(
                    digits=_UP_TO_THREE,
                    spaces="|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
                    + r"|\s{1,2}(?!\S)|\s",
                ),
            )
        ),
    ),
    ("minicpm5", Splitting((_UP_TO_THREE, _words(digits=r"\p{N}+")), keeps_whole_words=True)),
    (
        "qwen2 deepseek-r1-qwen stablelm2 megrez kormo hunyuan f2llmv2 solar-open grok-2",
        Splitting((_words(),)),
    ),
    ("qwen35", Splitting((_words(_WITH_MARKS, others=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),))),
    ("ufakzeka", Splitting((_words(endings=""),))),
    ("laguna", Splitting((_LINES, _words()))),
    ("seed-coder", Splitting((_words(others=r" ?[^\s\p{L}\p{N}\r\n]+"),))),
    ("bailingmoe bailingmoe2 llada-moe", Splitting((_words(line_ends=r"\s*[\r\n]"),))),
    (
        "exaone-moe",
        Splitting(
            (
                _words(
                    r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                    others=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                    line_ends=r"\s*[\r\n]",
                ),
            )
        ),
    ),
    (
        "deepseek-llm",
        Splitting((r"[\r\n]", rf"\s?{_CASED}+", rf"\s?{_PUNCTUATION}+", r"\s+$", _CHINESE, r"\p{N}+")),
    ),
    ("deepseek-coder", Splitting((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CHINESE, r"\p{N}"))),
    (
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        Splitting(
            (
                _UP_TO_THREE,
                _CHINESE_AND_KANA,
                _words(_DEEPSEEK_3_WORDS, "", r" ?[\p{P}\p{S}]+[\r\n]*", endings=""),
            )
        ),
    ),
    (
        "spark2_5",
        Splitting(
            (
                _UP_TO_THREE,
                _CHINESE_AND_KANA,
                _words(_DEEPSEEK_3_WORDS, "", r" ?[\p{P}\p{S}]+", r"[\r\n]", endings=""),
                r"\p{N}",
            )
        ),
    ),
    (
        "youtu",
        Splitting(
            (
                r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _CHINESE_AND_KANA,
                _words(_WITH_ENDINGS, others=_WITH_SLASHES, endings=""),
            ),
            keeps_whole_words=True,
        ),
    ),
    (
        "tiny_aya cohere2moe",
        Splitting((_THREES_FROM_THE_RIGHT, _words(_WITH_ENDINGS, _UP_TO_THREE, _WITH_SLASHES, endings=""))),
    ),
    (
        "tekken",
        Splitting(
            (_words(_cased_words(r"\p{L}", ""), others=_WITH_SLASHES, endings=""),),
            keeps_whole_words=True,
        ),
    ),
    (
        "gpt-4o llama4 kanana2 talkie minimax-m2",
        Splitting((_words(_cased_words(r"\p{L}", _ENDING), _UP_TO_THREE, _WITH_SLASHES, endings=""),)),
    ),
    (
        "granite-embed-multi-97m",
        Splitting(
            (_words(_cased_words(r"[\p{L}\p{M}]", _ENDING), _UP_TO_THREE, _WITH_SLASHES, endings=""),),
            keeps_whole_words=True,
        ),
    ),
    ("poro-chat bloom gpt3-finnish", Splitting((_SENTENCE_PARTS,))),
    ("viking", Splitting((_SENTENCE_PARTS, r"\p{N}"))),
)
SPLITTING_OF: Mapping[str, Splitting] = {
    pre: splitting for pres, splitting in _FAMILIES for pre in pres.split()
}
"""How each kind of byte-level BPE splits a text, by tokenizer.ggml.pre."""

LINES = Splitting((_LINES,))
"""Gemma 4's: only line ends are apart from the rest."""
