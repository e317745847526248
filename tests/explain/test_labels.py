"""Labels of tokens, shares and settings."""

import pytest

from engine_sampler.explain.labels import hundredths, percent, settings_text, shortened, token_text
from engine_sampler.tokenizer import Tokenizer

TOKENIZER = Tokenizer([b" the", "né".encode(), b"\t", "né".encode()[:2], b"", b"<end>"], eos_token_ids=[5])


@pytest.mark.parametrize(
    ("token_id", "text"),
    [(0, "␣the"), (1, "né"), (2, "\\t"), (3, "n\\xc3"), (4, "#4"), (5, "<end>"), (6, "#6")],
)
def test_a_token_is_one_visible_line(token_id, text):
    assert token_text(TOKENIZER, token_id) == text


def test_without_a_tokenizer_a_token_is_its_id():
    assert token_text(None, 131071) == "#131071"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0"), (1e-9, "<0.1"), (0.0123, "1.2"), (0.5, "50.0"), (0.9994, "99.9"), (1.0, "100")],
)
def test_a_share_is_written_as_a_percentage(share, text):
    assert hundredths(share) == text
    assert percent(share) == f"{text} %"


def test_a_long_text_is_cut_with_an_ellipsis():
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"


def test_the_name_of_the_owner_is_not_repeated():
    assert (
        settings_text({"temperature": 0.80, "dynatemp_range": 1.0}, "temperature") == "0.8 dynatemp_range=1"
    )


def test_lists_are_written_as_the_command_line_takes_them():
    assert settings_text({"bias": ((449, 2.0), (7, -0.5))}) == "bias=[[449, 2], [7, -0.5]]"
