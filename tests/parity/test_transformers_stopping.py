"""Criteria agree with transformers' own classes, on random tokenizations of random strings."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from engine_sampler.stopping import (
    ConfidenceCriteria,
    EosTokenCriteria,
    MaxLengthCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
theirs = pytest.importorskip("transformers.generation.stopping_criteria")
tokenizers = pytest.importorskip("tokenizers")

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
ALPHABET = "ab<|é🐈 \n"


def tokenizer_of(pieces: list[str], byte_level: bool) -> Any:
    """A transformers tokenizer whose vocabulary is all bytes and `pieces`."""
    if byte_level:
        letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        encode = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        extra = [encode.pre_tokenize_str(piece)[0][0] for piece in pieces]
        vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*letters, *extra]))}
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
        backend.pre_tokenizer, backend.decoder = encode, tokenizers.decoders.ByteLevel()
    else:
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        vocabulary = {
            piece: i
            for i, piece in enumerate(dict.fromkeys([*names, *(p.replace(" ", "▁") for p in pieces)]))
        }
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
        backend.decoder = tokenizers.decoders.Sequence(
            [
                tokenizers.decoders.Replace("▁", " "),
                tokenizers.decoders.ByteFallback(),
                tokenizers.decoders.Fuse(),
            ]
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend)


def text(random: np.random.Generator, max_length: int) -> str:
    return "".join(random.choice(list(ALPHABET), int(random.integers(1, max_length + 1))))


@pytest.mark.parametrize("byte_level", [True, False], ids=["byte level", "byte fallback"])
@pytest.mark.parametrize("seed", range(10 * ROUNDS))
def test_stop_strings_end_in_the_same_rows(seed: int, byte_level: bool) -> None:
    random = np.random.default_rng([seed, byte_level])
    pieces = list(dict.fromkeys(text(random, 4) for _ in range(60)))
    tokenizer = tokenizer_of(pieces, byte_level)
    strings = list(dict.fromkeys(text(random, 5) for _ in range(int(random.integers(1, 4)))))
    ours = StopStringCriteria(tokenizer, strings)
    other = theirs.StopStringCriteria(tokenizer, strings)
    rows = random.integers(256 - 40, len(tokenizer) + 2, (500, int(random.integers(1, 12))))
    likely = random.random(rows.shape) < 0.6
    rows[likely] = random.integers(256, len(tokenizer), int(likely.sum()))
    ids = torch.tensor(rows)
    result = ours(ids, None)
    assert result.dtype == torch.bool
    expected = other(ids, None)
    differing = (result != expected).nonzero().flatten().tolist()
    assert not differing, (
        strings,
        [tokenizer.convert_ids_to_tokens(rows[i].tolist()) for i in differing[:3]],
    )


@pytest.mark.parametrize("seed", range(20))
def test_all_other_criteria_agree(seed: int) -> None:
    random = np.random.default_rng(seed)
    ids = torch.tensor(random.integers(0, 9, (4, int(random.integers(1, 9)))))
    scores = torch.tensor(random.normal(0, 3, (4, 9)), dtype=torch.float32)
    limit, eos = int(random.integers(1, 9)), random.integers(0, 9, 2).tolist()
    pairs = [
        (MaxLengthCriteria(limit), theirs.MaxLengthCriteria(limit)),
        (EosTokenCriteria(eos), theirs.EosTokenCriteria(eos)),
        (EosTokenCriteria(eos[0]), theirs.EosTokenCriteria(eos[0])),
        (EosTokenCriteria(torch.tensor(eos)), theirs.EosTokenCriteria(torch.tensor(eos))),
    ]
    for ours, other in pairs:
        result = ours(ids, scores)
        assert result.dtype == torch.bool
        assert result.tolist() == other(ids, scores).tolist()
    together = StoppingCriteriaList([ours for ours, _ in pairs])
    as_theirs = theirs.StoppingCriteriaList([other for _, other in pairs])
    assert together(ids, scores).tolist() == as_theirs(ids, scores).tolist()
    assert together.max_length == as_theirs.max_length == limit
    threshold = float(random.random())
    ours, other = ConfidenceCriteria(threshold), theirs.ConfidenceCriteria(threshold)
    assert ours(ids[:1], (scores[:1],)) is other(ids[:1], (scores[:1],))
    assert ours(ids, (scores,)).tolist() == [other(ids[i : i + 1], (scores[i : i + 1],)) for i in range(4)]


def test_a_string_that_no_token_can_end_is_refused_by_both() -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    backend.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    assert not StopStringCriteria(tokenizer, ["ab"])(torch.tensor([[1, 0]]), None).any()
    with pytest.raises(ValueError, match="z"):
        StopStringCriteria(tokenizer, ["z"])
    with pytest.raises(ValueError, match="stop string"):
        theirs.StopStringCriteria(tokenizer, ["z"])(torch.tensor([[1, 0]]), None)


def test_generate_accepts_our_criteria() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=300, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    prompt = torch.tensor([[1, 2, 3]])
    criteria = transformers.StoppingCriteriaList([MaxLengthCriteria(9)])
    out = model.generate(
        prompt, do_sample=False, stopping_criteria=criteria, max_length=40, eos_token_id=None, pad_token_id=0
    )
    assert out.shape[1] == 9
