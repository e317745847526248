"""Writes GGUF files that contain only a vocabulary."""

import struct

from engine_sampler.tokenizer.pieces import byte_level_alphabet

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
ALPHABET = [byte_level_alphabet()[byte] for byte in range(256)]


def write_gguf(path, keys, order="<", version=3):
    """Write a file at `path` whose vocabulary has `keys`, without "tokenizer.ggml.", in this byte order."""
    metadata = {"general.architecture": "llama"} | {f"tokenizer.ggml.{k}": v for k, v in keys.items()}
    data = [b"GGUF", struct.pack(order + "IQQ", version, 0, len(metadata))]
    for key, value in metadata.items():
        data += [_text(key, order), struct.pack(order + "I", _kind(value)), _value(value, order)]
    path.write_bytes(b"".join(data))
    return path


def _kind(value):
    return {bool: 7, int: 4, float: 6, str: 8, bytes: 8, list: 9}[type(value)]


def _value(value, order):
    if isinstance(value, (str, bytes)):
        return _text(value, order)
    if isinstance(value, list) and isinstance(value[0], int):  # signed in a list
        return struct.pack(f"{order}IQ{len(value)}i", 5, len(value), *value)
    if isinstance(value, list):
        head = struct.pack(order + "IQ", _kind(value[0]), len(value))
        return head + b"".join(_value(v, order) for v in value)
    return struct.pack(order + {bool: "?", int: "I", float: "f"}[type(value)], value)


def _text(text, order):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(order + "Q", len(data)) + data


MERGES = [
    *("Ġ a", "t h", "th e", "Ġ the", "Ġ t", "i n", "in g", "1 2", "12 3", "' s", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ"),
    *("Ã ©", "Ġ Ã©", "e Ã©", "a b", "Ġa b", "1 1", "! !", "Ġ !", "Ġ 1"),
]
"""Merges of byte-level BPE that cross the borders of words, digits, line ends and characters."""


def byte_level_keys(pre="gpt-2", **more):
    """A byte-level BPE with every byte, `MERGES`, an EOS, and tokens of every other type."""
    merged = list(dict.fromkeys(merge.replace(" ", "") for merge in MERGES))
    others = {
        "</s>": CONTROL,
        "<|im_end|>": CONTROL,
        "日 本▁": USER_DEFINED,
        "<|x|>": CONTROL,
        "<unused0>": UNUSED,
    }
    tokens = [*ALPHABET, *merged, "Ġthing", *others]  # no merges produce " thing"
    types = [NORMAL] * (len(tokens) - len(others)) + list(others.values())
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": types,
        "merges": MERGES,
        "eos_token_id": tokens.index("</s>"),
        **more,
    }


def sentence_piece_keys(**more):
    """SentencePiece's BPE with byte fallback, and tokens of every type."""
    pieces = ["▁", *"abetho", "▁a", "th", "the", "▁the", "ab", "▁ab", "▁t", "▁▁", "ba", "▁▁▁", "he"]
    others = {"x▁y": USER_DEFINED, "<tool_call>": USER_DEFINED, "<|eot_id|>": CONTROL, "<unused0>": UNUSED}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces, *others]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + list(others.values())
    scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))] + [0.0] * len(others)
    keys = {"model": "llama", "tokens": tokens, "token_type": types, "scores": scores}
    return keys | {"eos_token_id": 2, "bos_token_id": 1, "unknown_token_id": 0} | more


def word_keys(**more):
    """WordPiece: words and what goes on in them."""
    words = ["▁the", "▁a", "▁ab", "▁thing", "▁th", "▁b", "▁!", "▁'", "▁1", "▁e", "▁日", "▁-", "▁x", "▁s"]
    pieces = [*words, "ing", "b", "e", "a", "2", "3", "s"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces]
    types = [CONTROL] * 4 + [NORMAL] * len(pieces)
    keys = {"model": "bert", "tokens": tokens, "token_type": types, "unknown_token_id": 1}
    return keys | {"cls_token_id": 2, "seperator_token_id": 3, "eos_token_id": 3} | more


def character_keys(**more):
    """Gemma 4's BPE: merges of characters, "▁" for a space, names for bytes, and runs of line ends."""
    merges = ["▁ t", "t h", "th e", "▁ the", "▁ a", "a b", "▁a b", "\n \n", "▁ ▁", "1 2"]
    pieces = [*"▁abethingo12!\n", *(merge.replace(" ", "") for merge in merges)]
    others = {"<|tool>": USER_DEFINED, "<end_of_turn>": CONTROL}
    tokens = ["<pad>", "<eos>", *(f"<0x{b:02X}>" for b in range(256)), *pieces, *others]
    types = [CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + list(others.values())
    keys = {"model": "gemma4", "tokens": tokens, "token_type": types, "merges": merges, "eos_token_id": 1}
    return keys | {"bos_token_id": 1} | more
