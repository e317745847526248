"""The tokens that `explain --token` names."""

from __future__ import annotations

import pytest

from engine_sampler import Tokenizer
from engine_sampler.cli.rows import token_id_of

TOKENIZER = Tokenizer([b"a", b" b", b"7", b""], eos_token_ids=[3])


@pytest.mark.parametrize(("text", "token_id"), [("a", 0), (" b", 1), ("2", 2), ("7", 7)])
def test_a_token_is_named_by_its_id_or_its_text(text: str, token_id: int) -> None:
    assert token_id_of(text, TOKENIZER) == token_id


@pytest.mark.parametrize(("text", "tokenizer"), [("ab", TOKENIZER), ("a", None)])
def test_what_names_no_token_is_refused(text: str, tokenizer: Tokenizer | None) -> None:
    with pytest.raises(ValueError, match=rf"--token '{text}' is not allowed: an id"):
        token_id_of(text, tokenizer)
