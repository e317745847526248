"""What may follow the beginning of a text, as lines: `engine-sampler grammar --mask`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..grammar.program.notation import class_text
from ..tokenizer import Tokenizer
from .labels import token_text
from .masks import MaskExplanation

if TYPE_CHECKING:
    from ..grammar.engines.reference.readings import ItemReading, RowReading, ThreadReading

MOST_TOKENS = 40
"""The tokens that are listed: those that may follow, or the others if these are fewer."""

MOST_CHARACTERS = 60
"""The characters of a text that are shown: its last ones."""


def mask_lines(explanation: MaskExplanation, tokenizer: Tokenizer) -> Iterator[str]:
    """The lines that describe a mask; the first says where the text leaves the grammar, if it does."""
    if explanation.refused is not None:
        yield f"byte {len(explanation.text)} cannot follow: {_shown(bytes([explanation.refused]))}"
    yield f"after {len(explanation.text)} bytes: {_shown(explanation.text)}"
    yield from _token_lines(explanation, tokenizer)
    yield f"the text {'may' if explanation.may_end else 'cannot'} end here"
    yield f"next byte: {class_text(sum(1 << byte for byte in explanation.next_bytes))}"
    if explanation.forced:
        yield f"must follow: {_shown(explanation.forced)}"
    yield ""
    for number, thread in enumerate(explanation.readings.threads, 1):
        yield f"reading {number}: {_thread_text(thread)}"
    for row in explanation.readings.rows:
        yield from _row_lines(row)
    if explanation.readings.omitted:
        yield f"and {explanation.readings.omitted} more rows"
    yield ""
    yield from _comparison(explanation)


def _shown(data: bytes) -> str:
    """The last bytes of a text, in quotes."""
    text = data.decode("utf-8", errors="backslashreplace")
    return repr(text) if len(text) <= MOST_CHARACTERS else "…" + repr(text[-MOST_CHARACTERS:])


def _token_lines(explanation: MaskExplanation, tokenizer: Tokenizer) -> Iterator[str]:
    allowed = explanation.allowed
    count, size = int(allowed.sum()), len(allowed)
    yield f"{count:,} of {size:,} tokens may follow ({explanation.engine} engine)"
    if count and count <= size - count:
        yield f"  {_token_list(np.flatnonzero(allowed), tokenizer)}"
    elif count < size:
        yield f"  all but {_token_list(np.flatnonzero(~allowed), tokenizer)}"


def _token_list(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """Tokens as id:text."""
    texts = [f"{token}:{token_text(tokenizer, token)}" for token in ids[:MOST_TOKENS].tolist()]
    more = f"  … and {len(ids) - MOST_TOKENS:,} more" if len(ids) > MOST_TOKENS else ""
    return "  ".join(texts) + more


def _thread_text(thread: ThreadReading) -> str:
    if thread.terminal:
        text = f"within {thread.terminal} after row {thread.row}, still to come {thread.rest or 'nothing'}"
    else:
        text = f"at row {thread.row}, between terminals"
    return text + f"; next {thread.next}" + (f"; but not {thread.excluded}" if thread.excluded else "")


def _row_lines(row: RowReading) -> Iterator[str]:
    end = " or the end" if row.accepting else ""
    yield f"row {row.row}: {_names(row.terminals) or 'nothing'}{end} may come next"
    if row.stack:
        yield f"  stack: {'  '.join(row.stack)}"
    for item in row.items:
        yield f"  {_item_text(item)}"
    if row.beginning:
        yield f"  begins: {_names(row.beginning)}"


def _item_text(item: ItemReading) -> str:
    registers = f" ({item.registers})" if item.registers else ""
    began = f", begun in row {item.began}" if item.began >= 0 else ""
    following = ", ".join([*item.next, *["its end"] * item.ends])
    return f"{item.rule} in state {item.state}{registers}{began}: next {following}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _comparison(explanation: MaskExplanation) -> Iterator[str]:
    if explanation.compared is None:
        yield "there is no other engine to compare with"
    elif not explanation.differences:
        yield f"{explanation.compared} engine: the same bytes on the way, and the same mask"
    for text in explanation.differences:
        yield f"the engines differ: {text}"
