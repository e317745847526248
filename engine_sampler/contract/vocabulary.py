"""`Vocabulary`: the properties of the tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.errors import ParameterError, TokenizerMissing, quoted

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer


@dataclass(frozen=True)
class Vocabulary:
    """The properties of the tokens.

    size           how many there are.
    eos_token_ids  those that end a text.
    tokenizer      their bytes; None if they are not known.
    grammar_limits  what grammars that requests bring as text may need, `grammar.Limits`; None: the default.
    grammar_engine  the name of what reads them, a `ConstraintReader`; None: the default.
    scheduler      the name of the scheduler whose tokens these are, for observers; "" without one. It is not
                   compared.
    """

    size: int
    eos_token_ids: tuple[int, ...] = ()
    tokenizer: Tokenizer | None = None
    grammar_limits: Any = None
    grammar_engine: str | None = None
    scheduler: str = field(default="", compare=False)

    def check_ids(self, parameter: str, token_ids: Iterable[int]) -> None:
        """Raise `ParameterError` for the first id of `parameter` outside 0..size-1."""
        token_ids = tuple(token_ids)
        if not token_ids or (min(token_ids) >= 0 and max(token_ids) < self.size):
            return
        for token_id in token_ids:
            if not 0 <= token_id < self.size:
                raise ParameterError(
                    f"{parameter} names token id {quoted(token_id)}, allowed are 0 to {self.size - 1}"
                )

    def need_tokenizer(
        self, parameter: str, why: str = "is given as text, which needs a tokenizer"
    ) -> Tokenizer:
        """The tokenizer; without one, raises `ParameterError`, which names `parameter` and the argument that
        gives a tokenizer."""
        if self.tokenizer is None:
            raise TokenizerMissing(f"{parameter} {why}")
        return self.tokenizer
