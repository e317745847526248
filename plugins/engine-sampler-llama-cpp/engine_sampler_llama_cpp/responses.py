"""Responses of llama-cpp-python's completions, with another text in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

OwnText = Callable[[], tuple[str, bool]]
"""Returns the text that no stop can cut off any more, and whether it is complete."""


def with_text(response: Any, own: OwnText) -> Any:
    """`response`, or the chunks of a streamed one, with the text of `own`.

    A completion that ends while its own text is not complete (by llama-cpp-python's limit of the context, or
    by a stop string of the chat template) keeps llama-cpp-python's text.
    """
    if not isinstance(response, Mapping):
        return _chunks_with_text(response, own)
    text, complete = own()
    return _replaced(response, text) if complete else response


def _chunks_with_text(chunks: Iterable[Mapping[str, Any]], own: OwnText) -> Iterator[Mapping[str, Any]]:
    sent, theirs = 0, ""
    for chunk in chunks:
        theirs += _text(chunk)
        text, complete = own()
        if chunk["choices"][0]["finish_reason"] is not None and not complete:
            text = theirs
        yield _replaced(chunk, text[sent:])
        sent = max(sent, len(text))


def _text(chunk: Mapping[str, Any]) -> str:
    choice = chunk["choices"][0]
    return (choice["delta"].get("content") if "delta" in choice else choice["text"]) or ""


def _replaced(response: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """A copy of a completion, a chat completion or a chunk of one of them, with `text` as its text."""
    choice = dict(response["choices"][0])
    if "text" in choice:
        choice["text"] = text
    elif "message" in choice:
        choice["message"] = {**choice["message"], "content": text}
    elif text or "content" in choice["delta"]:
        choice["delta"] = {**choice["delta"], "content": text}
    return {**response, "choices": [choice]}
