"""stop: end the request at any of its stop strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..contract import Param, TextCriteria, Vocabulary, flags_like
from ..contract.stopping import flag_all, newest_tokens, rows_and_length
from ..contract.values import stop_texts
from ..tokenizer import Tokenizer
from ._strings import StringMatcher

_UNKNOWN = b"\xff"
"""The stand-in for an id beyond the tokenizer: a byte that no text contains, so that no string spans it."""

_matcher = lru_cache(maxsize=64)(StringMatcher)


class StopStringCriteria(TextCriteria):
    """Ends a request as soon as its text contains one of the strings `stop`; stop_reason is the string.

    Strings are found in the bytes of the text, so a match may begin and end within tokens and span
    several, in any tokenization. The first string to be completed wins; of several that end with the same
    byte, the one listed first. The text ends before the string, or after it with
    `include_stop_str_in_output`; the tokens are unchanged. Strings completed within the first `min_tokens`
    tokens do not count. Text that may still become a stop string is held back.

    Special tokens: a string that is the name of a special token, such as `<|im_end|>`, ends the request at
    that token, too. `skip_special_tokens` leaves the name out of the text, also with
    `include_stop_str_in_output`. `min_tokens` masks that token. A name within a longer string counts only if
    it is in the text. Semantics: vLLM, which goes on at special tokens; SGLang, TGI and transformers do not.

    tokenizer     for a criterion that is called: a `Tokenizer`, or one from transformers or tokenizers.
    stop_strings  the criterion's own strings, in place of the request's.
    """

    name = "stop"
    params = (
        Param("stop", tuple, (), convert=stop_texts, limit=4096, doc="strings that end a request"),
        Param("include_stop_str_in_output", bool, False, switch=False,
              doc="keep the stop string, or the text of the stop token, in the text"),
    )  # fmt: skip
    examples = ({"stop": ["ab", "x"]}, {"stop": "10", "include_stop_str_in_output": True})

    def __init__(self, tokenizer: Any = None, stop_strings: str | Sequence[str] | None = None) -> None:
        self.stop_strings = None if stop_strings is None else self.params[0].check(stop_strings)
        self._longest = max((len(string.encode()) for string in self.stop_strings or ()), default=0)
        self._pieces = () if tokenizer is None else _pieces(tokenizer)
        if tokenizer is not None:
            self._check_reachable()

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> StringMatcher:
        strings = params["stop"] if self.stop_strings is None else self.stop_strings
        return _matcher(strings, bool(params.get("include_stop_str_in_output", False)))

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: whether a stop string ends in the last token of each row, which includes the prompt.

        The names of special tokens count as text here. Source: transformers.
        """
        if not self._longest:
            return flag_all(input_ids, False)
        if not self._pieces:
            raise ValueError("tokenizer=None is not allowed for a criterion that is called: it finds texts")
        _, length = rows_and_length(input_ids)
        read = self._longest
        while True:
            newest = newest_tokens(input_ids, read)
            before = [self._bytes_before(row) for row in newest.tolist()]
            if read >= length or min(map(len, before), default=read) >= self._longest - 1:
                break
            read *= 2  # some tokens have no bytes
        ends = [self._ends(*parts) for parts in zip(before, newest[:, -1:].tolist(), strict=True)]
        return flags_like(input_ids, ends)

    def _bytes_before(self, token_ids: list[int]) -> bytes:
        """The bytes of all tokens but the last; no more of them than a string that ends in it can have."""
        pieces: list[bytes] = []
        needed = self._longest - 1
        for token_id in reversed(token_ids[:-1]):
            if needed <= 0:
                break
            pieces.append(self._piece(token_id))
            needed -= len(pieces[-1])
        return b"".join(reversed(pieces))

    def _ends(self, before: bytes, last: list[int]) -> bool:
        """Whether a string ends in the last token, if there is one."""
        matcher = _matcher(self.stop_strings or (), False)
        state, _ = matcher.advance(0, before)
        return any(matcher.advance(state, self._piece(token_id))[1] for token_id in last)

    def _piece(self, token_id: int) -> bytes:
        return self._pieces[token_id] if 0 <= token_id < len(self._pieces) else _UNKNOWN

    def _check_reachable(self) -> None:
        """Refuse strings that no token could complete."""
        bytes_of_tokens = set().union(*self._pieces)
        for string in self.stop_strings or ():
            if string.encode()[-1] not in bytes_of_tokens:
                raise ValueError(f"stop_strings: no token contains the end of {string!r}")


def _pieces(tokenizer: Any) -> tuple[bytes, ...]:
    """The bytes of every token."""
    if not isinstance(tokenizer, Tokenizer):
        is_theirs = hasattr(tokenizer, "convert_ids_to_tokens")  # transformers', fast or in Python
        read = Tokenizer.from_transformers if is_theirs else Tokenizer.from_tokenizers
        tokenizer = read(tokenizer)
    return tokenizer.token_bytes
