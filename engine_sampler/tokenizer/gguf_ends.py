"""The tokens of a GGUF vocabulary that end a text, by its keys and by name, as in llama.cpp.

Files often declare only one EOS token; the end of a turn or of a tool call is known only by its name. The
rules are those of llama.cpp's `llama_vocab_is_eog`, which includes the fill-in-the-middle tokens that
separate files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

END_OF_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
"""The names of end-of-turn tokens; if there are several, the first one in this list is taken."""

OTHER_ENDS = (
    "<|eom_id|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "</s>", "[EOS]", "<eos>", "<turn|>",
    "<|tool_response>",
)  # fmt: skip

BETWEEN_FILES = {
    "fim_pad_token_id": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep_token_id": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep_token_id": ("<|file_sep|>",),
}
"""For each key the names to look for if it is missing."""


def find_ends(keys: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    """The ids of all tokens that end a text, starting with the file's EOS id; and the end-of-turn id.

    keys  the file's keys without "tokenizer.ggml.", including "tokens". Ids beyond the vocabulary are
          ignored.
    """
    ids = {token: i for i, token in enumerate(keys["tokens"])}
    for name in _excluded_names(ids):
        del ids[name]
    end_of_turn = _find(keys, "eot_token_id", END_OF_TURN, ids)
    ends = [
        _find(keys, "eos_token_id", (), ids),
        end_of_turn,
        _find(keys, "eom_token_id", (), ids),
        *(_find(keys, key, names, ids) for key, names in BETWEEN_FILES.items()),
        *(ids.get(name) for name in (*END_OF_TURN, *OTHER_ENDS)),
    ]
    return tuple(dict.fromkeys(i for i in ends if i is not None)), end_of_turn


def _find(keys: Mapping[str, Any], key: str, names: Sequence[str], ids: Mapping[str, int]) -> int | None:
    """The id that the file declares under `key`, else that of the first of `names` in the vocabulary."""
    stated = keys.get(key, -1)
    if 0 <= stated < len(keys["tokens"]):
        return int(stated)
    return next((ids[name] for name in names if name in ids), None)


def _excluded_names(ids: Mapping[str, int]) -> list[str]:
    """Names that do not end a text in a vocabulary whose tool calls have end tokens of their own."""
    has_calls = "<|call|>" in ids or "<|calls|>" in ids
    has_parts = has_calls and ("<|return|>" in ids or "<|flush|>" in ids)
    return [
        name
        for name, excluded in (("<|end|>", has_parts), ("</s>", "<|tool_response>" in ids))
        if excluded and name in ids
    ]
