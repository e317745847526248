"""Grammars of an engine's requests."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import quoted, text_of
from ..contract import ParameterError
from ..grammar import Grammar
from ..params import SamplingParams
from ..stateless import fill_bitmasks

logger = logging.getLogger("engine_sampler")


def structured_grammar(
    kind: str, value: Any, *, whitespace: str | int | None = None, closes_objects: bool = False
) -> Grammar:
    """The grammar of a constraint in the form in which engines pass it on.

    kind            json, json_object, regex, choice, grammar (Lark, GBNF or EBNF) or structural_tag.
    value           text; of choice a JSON list of texts.
    whitespace      between the tokens of JSON, as for `Grammar.from_json_schema`.
    closes_objects  whether objects of a schema have no properties but those that it names.

    Raises `ParameterError` for another kind, ValueError for what cannot be read.
    """
    if kind == "json" and closes_objects:
        asked = {"json": value, "disable_additional_properties": True}
        value = SamplingParams.from_dict({"structured_outputs": asked}).json_schema
    if kind == "json":
        return Grammar.from_json_schema(value, whitespace=whitespace)
    if kind == "json_object":
        return Grammar.from_json_object(whitespace=whitespace)
    if kind == "regex":
        return Grammar.from_regex(value)
    if kind == "choice":
        return Grammar.from_choices(json.loads(value))
    if kind == "grammar":
        return Grammar.from_text(value)
    if kind == "structural_tag":
        return Grammar.from_structural_tag(value, whitespace=whitespace)
    raise ParameterError(
        f"kind={quoted(kind)} is not allowed: json, json_object, regex, choice, grammar or structural_tag"
    )


class GrammarText:
    """The text of an engine's request under a grammar.

    compiled  a compiled grammar.
    ends      tokens that end the text where it may end, and are nothing else, beside those of the grammar's
              tokenizer, which its matcher knows.

    A grammar that reaches a limit is logged; it constrains nothing more, and refuses the next token, so that
    the engine ends this request and no others.

    matcher  of the text up to its end.
    fault    why the grammar has given up; None if it has not.
    """

    def __init__(self, compiled: Any, ends: Collection[int] | None = None) -> None:
        self._compiled = compiled
        self._ends = frozenset(ends or ())
        self._end_bits = [(token_id // 32, np.uint32(1 << token_id % 32)) for token_id in self._ends]
        self.reset()

    def reset(self) -> None:
        """Go back to the beginning of the text."""
        self.matcher = self._compiled.matcher()
        self.fault: str | None = None
        self._unseen = 0
        """How many tokens the matcher has not seen: one of `ends`, and what came behind the end."""

    def fork(self) -> Any:
        """Another text with the same beginning, of the same class."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other.matcher = self.matcher.fork()
        return other

    def is_terminated(self) -> bool:
        """Whether the text has ended."""
        return self._unseen > 0 or self.matcher.is_terminated()

    def accept(self, tokens: Iterable[int]) -> bool:
        """Add tokens to the text; False if one cannot follow. What comes behind the end is only counted."""
        if self.fault is not None:
            return False
        try:
            for token_id in tokens:
                if self._unseen or self.matcher.is_terminated():
                    self._unseen += 1
                elif not self._follow(token_id):
                    return False
        except ValueError as fault:
            self._give_up(text_of(fault))
            return False
        return True

    def count_valid(self, tokens: Sequence[int]) -> int:
        """How many of the tokens could follow, up to the end of the text."""
        count = 0
        if self.fault is not None:
            return 0
        try:
            for token_id in tokens:
                if token_id < 0 or self.is_terminated() or not self._follow(token_id):
                    break
                count += 1
        except ValueError as fault:
            self._give_up(text_of(fault))
            return 0
        self.rollback(count)
        return count

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        if self._unseen:
            unseen = min(num_tokens, self._unseen)
            self._unseen -= unseen
            num_tokens -= unseen
        if num_tokens and self.fault is None:
            self.matcher.rollback(num_tokens)

    def fill(self, bitmask: np.ndarray, row: int) -> None:
        """Write which tokens may follow to a row of int32 [rows, ceil(vocab / 32) or more]."""
        words, fault = bitmask[row], None
        if self.is_free():
            words.fill(-1)
            return
        words.fill(0)
        try:
            self.matcher.fill_bitmask(bitmask, row)
        except ValueError as error:
            fault = text_of(error)
        self.finish_mask(words, fault)

    def is_free(self) -> bool:
        """Whether nothing constrains what comes next: the text has ended, or its grammar has given up."""
        return self.fault is not None or self.is_terminated()

    def finish_mask(self, words: np.ndarray, fault: str | None) -> None:
        """Finish int32 [words], a mask that the matcher has filled, or could not fill because of `fault`."""
        try:
            if fault is None and self._end_bits:
                self._put_ends(words.view(np.uint32))
        except ValueError as error:
            fault = text_of(error)
        if fault is not None:
            self._give_up(fault)
            words.fill(-1)

    def _put_ends(self, words: np.ndarray) -> None:
        may_end = self.matcher.is_accepting()
        for at, bit in self._end_bits:
            if may_end:
                words[at] |= bit
            else:
                words[at] &= ~bit

    def _give_up(self, fault: str) -> None:
        self.fault = fault
        logger.error("a grammar gives up: %s", fault)

    def _follow(self, token_id: int) -> bool:
        """Add a token to a text that has not ended; False if it cannot follow."""
        if token_id not in self._ends:
            return bool(self.matcher.accept(token_id))
        if not self.matcher.is_accepting():
            return False
        self._unseen = 1
        return True


def fill_texts(texts: Sequence[GrammarText], bitmask: np.ndarray, rows: Sequence[int]) -> None:
    """Fill the rows of some texts in int32 [rows, ceil(vocab / 32) or more], in one call. A text that has
    ended, or whose grammar has given up, allows every token."""
    for text, row in zip(texts, rows, strict=True):
        bitmask[row] = -1 if text.is_free() else 0
    going = {row: text for text, row in zip(texts, rows, strict=True) if not text.is_free()}
    faults = fill_bitmasks([text.matcher for text in going.values()], bitmask, list(going))
    for row, text in going.items():
        text.finish_mask(bitmask[row], faults.get(row))
