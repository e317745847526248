"""`read_rows`: rows of logits in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine_sampler.explain import read_rows

CHAT = {
    "token": "Hi",
    "logprob": -0.5,
    "bytes": [72, 105],
    "top_logprobs": [{"token": "Hi", "logprob": -0.5}, {"token": "Yo", "logprob": -1.5}],
}
LEGACY = {
    "tokens": ["A", "Yo"],
    "token_logprobs": [None, -2.0],
    "top_logprobs": [None, {"Hi": -0.25, "bad": -9999.0}],
}


def written(path: Path, *lines: object) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_answers_of_servers_are_rows_over_the_tokens_that_they_list(tmp_path):
    answer = {"choices": [{"logprobs": {"content": [CHAT]}}]}
    rows, tokenizer = read_rows(written(tmp_path / "a.jsonl", answer, CHAT, {"content": [CHAT]}, LEGACY))
    assert tokenizer is not None
    assert tokenizer.token_bytes == (b"Hi", b"Yo")
    np.testing.assert_array_equal(rows, [[-0.5, -1.5]] * 3 + [[-0.25, -2.0]])


WRONG = (
    "[",
    "5",
    "{}",
    '{"top_logprobs": [{"token": 5}]}',
    '{"top_logprobs": [{"token": "a", "bytes": 30000000000, "logprob": -1}]}',
    f'{{"top_logprobs": [{{"token": "a", "logprob": -1{"0" * 400}}}]}}',
    "null",
    "[" * 100_000,
)


@pytest.mark.parametrize("line", WRONG)
def test_what_has_no_logprobs_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(CHAT) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: no logprobs as OpenAI or vLLM write them"):
        read_rows(str(path))


def test_a_file_without_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no logprobs"):
        read_rows(written(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("array", [np.zeros((0, 4)), np.zeros(4, np.int64), np.zeros((2, 2, 2))])
def test_an_array_of_another_kind_is_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match="no rows of logits"):
        read_rows(str(tmp_path / "a.npy"))


def test_one_row_is_rows_too(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(4, np.float16))
    assert read_rows(str(tmp_path / "a.npy"))[0].shape == (1, 4)
