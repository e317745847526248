"""`StoppingCriteria`: end requests by their tokens or by their text."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .params import Param
from .samplers import PLUGIN_API, State, Stateful
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer


class TokenLogprob(float):
    """The raw logprob of a drawn token, with the confidence of its row.

    confidence  −mean of the raw logprobs of the row's k likeliest tokens, each at least −1e9.
    """

    __slots__ = ("confidence",)
    confidence: float

    def __new__(cls, logprob: float, confidence: float) -> TokenLogprob:
        self = super().__new__(cls, logprob)
        self.confidence = confidence
        return self

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return float(self), self.confidence


class StoppingCriteria(Stateful):
    """Ends requests. One class serves two uses.

    The scheduler uses it token by token: `new_state` at `add`, then `check` after every accepted token.
    It can also be called like transformers' criteria: `criterion(input_ids, scores) -> bool [rows]`.

    The registered object reads the parameters of each request; one constructed with its own values may be
    passed to `Scheduler.add(stopping_criteria=…)`, or called.

    `examples` are parameter sets that turn it on, which the contract kit tries: {"max_tokens": 9}.
    `texts` are outputs that end by it under one of these, if random ones rarely do: ("f(x)",).
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    params: ClassVar[tuple[Param, ...]] = ()
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    texts: ClassVar[tuple[str, ...]] = ()
    is_limit: ClassVar[bool] = False
    """True for limits on length or time, which are checked after all other criteria."""
    waits_for_min_tokens: ClassVar[bool] = True
    """False for criteria that may end a request before it has `min_tokens` tokens."""
    wants_logprobs: ClassVar[bool] = False
    """True if `check` also takes `logprobs`, the raw logprob of each token (0 for one chosen elsewhere)."""

    def is_active(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
        """Whether a request with `params` needs this criterion."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def check_params(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed separately but not together. Called for requests
        that give one of the `params`."""

    def confidence_top_k(self, params: Mapping[str, Any]) -> int:
        """How many of a row's likeliest tokens make its confidence. If this is not 0, the `logprobs` of drawn
        tokens are `TokenLogprob`. Asked once, of criteria with `wants_logprobs`."""
        return 0

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> State:
        """The state of one request."""
        return None

    def watch(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Watch | None:
        """When `check` can return a verdict; None means after any token. Called once, after `new_state`.

        A criterion that declares this costs nothing in between; `check` then receives all tokens since
        its last call at once. It may be called more often than declared.
        """
        return None

    def check(self, state: State, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        """Examine newly accepted `token_ids`; a verdict ends the request.

        text  the text that has become final with them; it may lag behind the tokens, see `TextCriteria`.

        A criterion may leave `check` out and define `__call__` alone: a scheduler then calls it after each
        token.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither check nor __call__")

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Which rows of `input_ids` [rows, length] end with their last token: bool [rows], as a NumPy array,
        or as a tensor on the same device if a torch tensor is given.

        A row is treated as the output of a request without parameters, unless a subclass documents
        otherwise. Its tokens are all that is known about it.
        """
        rows = token_rows(input_ids)
        return flags_like(input_ids, [self.ends(row.tolist()) for row in rows])

    def ends(self, token_ids: Sequence[int]) -> bool:
        """Whether an output ends with the last of `token_ids`; verdicts on earlier tokens are ignored."""
        state = self.new_state({}, np.empty(0, np.int64), Vocabulary(2**63 - 1))
        self.check(state, token_ids[:-1], "")
        return self.check(state, token_ids[-1:], "") is not None


def token_rows(input_ids: Any) -> np.ndarray:
    """`input_ids` [rows, length], or [length] for one row, as int64 [rows, length]; accepts NumPy arrays,
    torch tensors and lists."""
    on_host = input_ids.detach().cpu() if hasattr(input_ids, "detach") else input_ids
    rows = np.atleast_2d(np.asarray(on_host))
    if rows.ndim != 2 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"input_ids are {rows.dtype} {list(rows.shape)}; allowed are integers [rows, length]")
    return rows.astype(np.int64, copy=False)


def rows_and_length(input_ids: Any) -> tuple[int, int]:
    """The shape of `token_rows(input_ids)`; the tokens themselves stay where they are."""
    rows, length = input_ids.shape if getattr(input_ids, "ndim", 0) == 2 else token_rows(input_ids).shape
    return int(rows), int(length)


def newest_tokens(input_ids: Any, count: int) -> np.ndarray:
    """The last `count` columns of `token_rows(input_ids)`; of a tensor on a device, no others are copied."""
    if hasattr(input_ids, "shape"):
        return token_rows(input_ids[..., max(0, input_ids.shape[-1] - count) :])
    rows = token_rows(input_ids)
    return rows[:, max(0, rows.shape[1] - count) :]


def flag_all(input_ids: Any, flag: bool) -> Any:
    """bool [rows], all of them `flag`, as `flags_like` gives it; a device is not waited for."""
    rows, _ = rows_and_length(input_ids)
    if hasattr(input_ids, "new_full"):
        return input_ids.new_full((rows,), int(flag)).bool()
    return np.full(rows, flag)


def flags_like(input_ids: Any, flags: Any) -> Any:
    """bool [rows] as a NumPy array, or as a tensor on the device of `input_ids` if that is a torch tensor."""
    flags = np.asarray(flags, bool)
    if hasattr(input_ids, "new_tensor"):
        return input_ids.new_tensor(flags.tolist()).bool()
    return flags


@dataclass(frozen=True)
class Watch:
    """When a stopping criterion can return a verdict: at a token in `token_ids`, and whenever the output has
    `output_length` tokens or more."""

    token_ids: Collection[int] = ()
    output_length: int | None = None


@dataclass(frozen=True)
class StopVerdict:
    """Why a request ends.

    reason         the stop_reason: the stop string, token id or criterion name; None for EOS.
    finish_reason  stop, length, repetition, …
    cut            the number of bytes before the end of the newest token that do not belong to the text:
                   those of a stop string or a stop token. Text that has already been streamed stays.
    """

    reason: str | int | None
    finish_reason: str = "stop"
    cut: int = 0


class TextMatch(NamedTuple):
    """The end of a text, found in the newest bytes; offsets count from the first of them.

    end       the offset after the byte that completed the match; the smallest wins.
    text_end  the offset at which the text is cut; negative if it is cut before these bytes.
    reason    the request's stop_reason.
    """

    end: int
    text_end: int
    reason: str | int | None


class TextMatcher:
    """Finds the end of a text in its bytes: an immutable automaton.

    start  the state of the empty text. States are hashable, and equal states behave equally.
    """

    start: Hashable

    def advance(self, state: Any, data: bytes) -> tuple[Hashable, TextMatch | None]:
        """The state after `data`, and the first match that ends in it. A match does not end the automaton."""
        raise NotImplementedError

    def held(self, state: Any) -> int:
        """How many bytes at the end of the text a later match may still cut off."""
        raise NotImplementedError

    def at_special(self, name: bytes) -> TextMatch | None:
        """The match at a special token of this name that is not in the text: its offsets are 0. The state
        stays as it is."""
        return None


class TextCriteria(StoppingCriteria):
    """Ends requests by their text, with a `TextMatcher`.

    The scheduler holds back the text that a match may still cut off, and not one character more: it runs
    the matcher itself and shares the results among all requests with the same matcher. It holds back at most
    64 KiB: the oldest text is then streamed and stays, even if a match that ends later begins in it. Matches
    that end within the first `min_tokens` tokens do not count.

    takes_back  True for a ban: a match ends nothing. The request goes back to the token in which the match
                begins, and draws another one there (`StepResult.rewinds`). `min_tokens` does not matter.
    """

    takes_back: ClassVar[bool] = False

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> TextMatcher:
        """The matcher for a request; preferably the same object for the same values."""
        raise NotImplementedError

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> TextState:
        tokenizer = vocabulary.need_tokenizer(self.name)
        matcher = self.matcher(params, vocabulary)
        return TextState(matcher, tokenizer, bool(params.get("skip_special_tokens", True)), [matcher.start])

    def check(self, state: TextState, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return state.advance(token_ids)

    def rollback(self, state: TextState, n: int) -> None:
        del state.states[len(state.states) - n :]

    def fork(self, state: TextState) -> TextState:
        return TextState(state.matcher, state.tokenizer, state.skip_special_tokens, state.states.copy())


@dataclass
class TextState:
    """The progress of a `TextMatcher` through one text: its states before the first token and after each."""

    matcher: TextMatcher
    tokenizer: Tokenizer
    skip_special_tokens: bool
    states: list[Hashable]

    def advance(self, token_ids: Iterable[int]) -> StopVerdict | None:
        """Read more tokens and return the verdict of the first match in them."""
        first: TextMatch | None = None
        length = 0  # bytes read; once there is a match, only those from the start of its token
        for token_id in token_ids:
            data = self.tokenizer.text_bytes(token_id, self.skip_special_tokens)
            state, match = self.matcher.advance(self.states[-1], data)
            hidden = self.tokenizer.hidden_name(token_id, self.skip_special_tokens)
            match = match or (self.matcher.at_special(hidden) if hidden else None)
            self.states.append(state)
            length += len(data)
            if first is None and match is not None:
                first, length = match, len(data)
        return None if first is None else StopVerdict(first.reason, cut=length - first.text_end)
