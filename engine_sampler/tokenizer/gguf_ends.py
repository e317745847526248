"""Which tokens of a GGUF vocabulary end a text: by its keys, and by names as llama.cpp finds them.

Files often name one EOS token only, and the end of a turn or a tool call by its text alone. The rules
are those of llama.cpp's `llama_vocab_is_eog`, to which the fill-in-the-middle tokens belong that
separate files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

END_OF_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
"""The names of end-of-turn tokens; of several the first here is taken."""

OTHER_ENDS = (
    "<|eom_id|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "</s>", "[EOS]", "<eos>", "<turn|>",
    "<|tool_response>",
)  # fmt: skip

BETWEEN_FILES = {
    "fim_pad_token_id": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep_token_id": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep_token_id": ("<|file_sep|>",),
}
"""For each key the names that stand in for it."""


def find_ends(keys: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    """The ids of all tokens that end a text, first the one that the file calls EOS; the end of a turn.

    keys  the file's keys without "tokenizer.ggml.", "tokens" among them. Ids beyond the vocabulary
          are passed over.
    """
    ids = {token: i for i, token in enumerate(keys["tokens"])}
    for name in _no_ends(ids):
        del ids[name]
    end_of_turn = _find(keys, "eot_token_id", END_OF_TURN, ids)
    found = [
        _find(keys, "eos_token_id", (), ids),
        end_of_turn,
        _find(keys, "eom_token_id", (), ids),
        *(_find(keys, key, names, ids) for key, names in BETWEEN_FILES.items()),
        *(ids.get(name) for name in (*END_OF_TURN, *OTHER_ENDS)),
    ]
    return tuple(dict.fromkeys(i for i in found if i is not None)), end_of_turn


def _find(keys: Mapping[str, Any], key: str, names: Sequence[str], ids: Mapping[str, int]) -> int | None:
    """The id that the file states under `key`, else that of the first of `names`."""
    stated = keys.get(key, -1)
    if 0 <= stated < len(keys["tokens"]):
        return int(stated)
    return next((ids[name] for name in names if name in ids), None)


def _no_ends(ids: Mapping[str, int]) -> list[str]:
    """Names that end no text beside some others: where a tool call has an end of its own."""
    calls = "<|call|>" in ids or "<|calls|>" in ids
    parts = calls and ("<|return|>" in ids or "<|flush|>" in ids)
    return [
        name
        for name, inside in (("<|end|>", parts), ("</s>", "<|tool_response>" in ids))
        if inside and name in ids
    ]
