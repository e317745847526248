"""Values that a parser reads, as pydantic validates them."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.messages import MessageParser

pydantic = pytest.importorskip("pydantic")
typing_extensions = pytest.importorskip("typing_extensions")


def read(text: str) -> MessageParser:
    parser = MessageParser("qwen_3", reasoning="enabled")
    parser.feed("Hm.</think>\n\n" + text)
    parser.finish()
    return parser


def test_the_content_is_a_model_or_a_typed_dict_in_the_end() -> None:
    weather: Any = pydantic.create_model("Weather", city=(str, ...), days=(int, 1))
    parser = read('{"city": "Paris"}')
    assert parser.validated(weather) == weather(city="Paris", days=1)
    typed = typing_extensions.TypedDict("typed", {"city": str})
    assert parser.validated(typed) == {"city": "Paris"}
    assert parser.validated(dict[str, str]) == {"city": "Paris"}


@pytest.mark.parametrize("text", ['{"town": "Paris"}', '{"city": 5}', "[]"])
def test_what_is_not_valid_is_an_error(text: str) -> None:
    weather: Any = pydantic.create_model("Weather", city=(str, ...))
    with pytest.raises(pydantic.ValidationError):
        read(text).validated(weather)
