"""Wrong grammars."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import Tokenizer

from .collection import ANY, breaks
from .right import Automaton, Compiled, Spelling

COPY = "a_copy_has_the_same_language"
NUMBERS = "the_numbers_of_the_tokens_do_not_matter"
TEXTLESS = "tokens_without_text_are_masked"


@breaks("it_can_be_registered", ANY, says="cannot be read", grammar="start: nowhere")
class CannotBeRead(Automaton):
    """Is a text with a rule that does not exist."""


@breaks("it_can_be_registered", ANY, says="an object with compile(tokenizer)", grammar={"start": "ab"})
class IsNoGrammar(Automaton):
    """Is a dictionary."""


@breaks("it_can_be_registered", ANY, says="an object with matcher()")
class CompilesToAMatcher(Automaton):
    """Gives the matcher of one request to all."""

    def compile(self, tokenizer: Tokenizer) -> Any:
        return Spelling(tokenizer)


@breaks("compiling_again_gives_the_same_language", ANY)
class LosesAWordAtTimes(Automaton):
    """Forgets how to spell "ac" every second time that it is compiled."""

    compiled = 0

    def compile(self, tokenizer: Tokenizer) -> Any:
        self.compiled += 1
        return Compiled(tokenizer, Spelling if self.compiled % 2 else WithoutC)


class WithoutC(Spelling):
    """The texts (ab)*d!."""

    def after(self, data: bytes) -> int | None:
        return None if b"c" in data else super().after(data)


@breaks("every_request_gets_a_matcher_of_its_own", ANY)
class SharesItsMatcher(Automaton):
    """Makes one matcher for each tokenizer."""

    def compile(self, tokenizer: Tokenizer) -> Any:
        compiled, matcher = Compiled(tokenizer, Spelling), Spelling(tokenizer)
        compiled.matcher = lambda: matcher  # type: ignore[method-assign]
        return compiled


@breaks(NUMBERS, ANY)
class RemembersATokenizer(Automaton):
    """Uses the first tokenizer that it has seen for all."""

    first: Tokenizer | None = None

    def compile(self, tokenizer: Tokenizer) -> Any:
        self.first = self.first or tokenizer
        return super().compile(self.first)


@breaks(NUMBERS, ANY)
class PrefersLowNumbers(Automaton):
    """Allows only the first of the tokens in half of the vocabulary."""

    class Half(Spelling):
        """Knows the first half of the tokens, and EOS."""

        def piece(self, token_id: int) -> bytes:
            return super().piece(token_id) if token_id < len(self.tokenizer) // 2 else b""

    kind = Half


@breaks("the_language_is_the_same_for_any_tokenizer", ANY, says="one by one")
class MissesWhatCrossesAWord(Automaton):
    """Allows no token that ends one word and begins the next."""

    class Within(Spelling):
        """Refuses a letter after a whole word in one token."""

        def allows(self, token_id: int) -> bool:
            return super().allows(token_id) and self.piece(token_id)[:2] not in (b"ba", b"ca", b"bd", b"cd")

    kind = Within


class Lenient(Spelling):
    """Looks at the bytes of tokens alone."""

    def has(self, token_id: int, data: bytes) -> bool:
        """Whether `data` are the bytes of a token, while the text has not ended."""
        inside = 0 <= token_id < len(self.tokenizer) and not self.is_terminated()
        return inside and self.tokenizer.token_bytes[token_id] == data


@breaks(TEXTLESS)
class AllowsEmptyTokens(Automaton):
    """Takes a token without bytes for one that always fits."""

    class Empty(Lenient):
        """Lets tokens of no bytes follow anything."""

        def allows(self, token_id: int) -> bool:
            return self.has(token_id, b"") or super().allows(token_id)

    kind = Empty


@breaks(TEXTLESS)
class ReadsNamesAsText(Automaton):
    """Takes the name of a special token for text, and allows it."""

    class Named(Lenient):
        """Allows a name anywhere."""

        def allows(self, token_id: int) -> bool:
            return self.has(token_id, b"<|never a text|>") or super().allows(token_id)

    kind = Named


@breaks("the_padding_of_logits_is_masked")
class LeavesThePaddingOpen(Automaton):
    """Sets the bits beyond its tokens."""

    class Open(Spelling):
        """Masks its own tokens alone."""

        def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
            super().fill_bitmask(bitmask, row)
            bits = np.unpackbits(bitmask[row].view(np.uint8), bitorder="little")
            bits[len(self.tokenizer) :] = 1
            bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    kind = Open


@breaks(COPY, says="in a copy of the compiled grammar")
class CopiesWithoutItsKind(Automaton):
    """Is copied as another automaton."""

    class Forgetful(Compiled):
        """Becomes (ab)*d! when it is copied."""

        def __deepcopy__(self, memo: Any) -> Compiled:
            return Compiled(self.tokenizer, WithoutC)

    def compile(self, tokenizer: Tokenizer) -> Any:
        return self.Forgetful(tokenizer, Spelling)


@breaks(COPY, says="in an unpickled copy of the grammar")
class PicklesItsDefaults(Automaton):
    """Is unpickled as another automaton."""

    def __init__(self, kind: type[Spelling] = Spelling) -> None:
        self.kind = kind

    def __deepcopy__(self, memo: Any) -> Automaton:
        return self

    def __reduce__(self) -> Any:
        return PicklesItsDefaults, (WithoutC,)
