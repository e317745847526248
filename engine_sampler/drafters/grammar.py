"""grammar: draft the text that the request's grammar forces."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import DraftedText, Drafter, bitmask_words, is_bounded, unpack_bitmask

MAX_BYTES = 256
"""The most bytes of text that are split into tokens at once."""

RECENT = 256
"""How many of the last tokens show how the text writes blanks."""

BLANKS = b" \t\n\r"


class GrammarDrafter(Drafter):
    """What the grammar forces: names of a JSON object, its punctuation, the end.

    Tokens that must come next are drafted first. Where only the next bytes are certain, as at the end of
    `{"name":"`, they are split as the tokenizer splits them, whatever follows. Where only white space and one
    other byte may come, the draft has the white space that stood there last, after the same two bytes: at
    first a blank after a colon and a comma, and else none. Where nothing but the end may follow, it is EOS.

    A request without a grammar gets no drafts, nor does a text in which the next byte is open.
    """

    name = "grammar"

    def draft(self, state: Any, text: DraftedText, count: int) -> list[int]:
        if text.matcher is None:
            return []
        limits = {"work": text.work} if is_bounded(text.matcher) else {}
        if certain := _certain(text, limits):
            return certain[:count]
        tokenizer = text.vocabulary.tokenizer
        if tokenizer is None or not hasattr(text.matcher, "forced_bytes"):
            return []
        following = text.matcher.next_bytes(**limits)
        if not following:
            return _end(text, limits)[:count]
        if len(following.translate(None, BLANKS)) > 1:
            return []
        try:
            return tokenizer.split_bytes(_likely(text, limits))[:count]
        except ValueError:  # no tokens spell it
            return []


def _certain(text: DraftedText, limits: dict[str, Any]) -> list[int]:
    """The tokens that must come next."""
    forced = getattr(text.matcher, "forced_tokens", None)
    return [] if forced is None else list(forced(**limits))


def _likely(text: DraftedText, limits: dict[str, Any]) -> bytes:
    """The bytes that come next if blanks are written as before."""
    matcher, data = text.matcher.fork(), b""
    while len(data) < MAX_BYTES:
        more = matcher.forced_bytes(MAX_BYTES - len(data), **limits)
        ways = (more,) if more else _behind_blanks(matcher.next_bytes(**limits), text, data)
        more = next((way for way in ways if matcher.accept_bytes(way)), b"")
        if not more:
            break
        data += more
    return data


def _behind_blanks(following: bytes, text: DraftedText, data: bytes) -> tuple[bytes, ...]:
    """The only byte that may follow but for white space: with what stood before it last, and without. () if
    there are several, or no white space may follow."""
    solid = following.translate(None, BLANKS)
    if len(solid) != 1 or solid == following:
        return ()
    return _blanks_before(text, data) + solid, solid


def _blanks_before(text: DraftedText, data: bytes) -> bytes:
    """The white space that followed the last two bytes when they stood there before."""
    tokenizer = text.vocabulary.tokenizer
    assert tokenizer is not None  # `draft` has made sure of it
    recent = [*text.history[-RECENT:].tolist(), *text.draft]
    written = b"".join(map(tokenizer.text_bytes, recent)) + data
    last = written[-2:]
    at = written.rfind(last, 0, len(written) - 1)
    if not last or at < 0:
        return b" " if last.endswith((b":", b",")) else b""
    behind = written[at + len(last) :]
    return behind[: len(behind) - len(behind.lstrip(BLANKS))]


def _end(text: DraftedText, limits: dict[str, Any]) -> list[int]:
    """The one token that may come where no bytes may: EOS, or a marker."""
    matcher, tokenizer = text.matcher, text.vocabulary.tokenizer
    if tokenizer is None or matcher.is_terminated():
        return []
    bitmask = np.zeros((1, bitmask_words(text.vocabulary.size)), np.int32)
    matcher.fill_bitmask(bitmask, 0, **limits)
    allowed = np.flatnonzero(unpack_bitmask(bitmask[0], text.vocabulary.size)).tolist()
    return [t for t in allowed if len(allowed) == 1 or t == tokenizer.eot_token_id]
