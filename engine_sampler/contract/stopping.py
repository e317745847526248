"""`StoppingCriteria`: what ends requests, by their tokens or by their text."""

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


class StoppingCriteria(Stateful):
    """Ends requests. One class serves two uses.

    By the scheduler, token by token: `new_state` at `add`, then `check` after every accepted token.
    Called like transformers' criteria, `criterion(input_ids, scores) -> bool [rows]`.

    The object that is registered reads the parameters of each request; one that is made with values of its
    own may be given to `Scheduler.add(stopping_criteria=…)`, or called.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    params: ClassVar[tuple[Param, ...]] = ()
    is_limit: ClassVar[bool] = False
    """True for limits on length or time, which are asked after all other criteria."""
    waits_for_min_tokens: ClassVar[bool] = True
    """False for criteria that end a request even before `min_tokens` tokens."""
    wants_logprobs: ClassVar[bool] = False
    """True if `check` also takes `logprobs`, the raw logprob of each of the tokens (0 for one chosen
    elsewhere)."""

    def is_active(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
        """Whether a request with `params` needs this criterion."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> State:
        """The state of one request."""
        return None

    def watch(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Watch | None:
        """When `check` can have a verdict; None: after any token. Asked once, behind `new_state`.

        A criterion that says so costs nothing in between, and then sees all tokens since its last
        call at once. It may be called more often than it asks for.
        """
        return None

    def check(self, state: State, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        """Look at newly accepted `token_ids`; a verdict ends the request.

        text  what has become certain with them: it may lag behind the tokens, see `TextCriteria`.
        """
        raise NotImplementedError

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Which rows of `input_ids` [rows, length] end with their last token: bool [rows], a NumPy array,
        or a tensor on the same device where a torch tensor is given.

        Unless a subclass says otherwise, a row is taken for the output of a request without parameters,
        of which nothing is known but its tokens.
        """
        rows = token_rows(input_ids)
        return flags_like(input_ids, [self.ends(row.tolist()) for row in rows])

    def ends(self, token_ids: Sequence[int]) -> bool:
        """Whether an output ends with the last of `token_ids`; what the tokens before it said does not
        count."""
        state = self.new_state({}, np.empty(0, np.int64), Vocabulary(2**63 - 1))
        self.check(state, token_ids[:-1], "")
        return self.check(state, token_ids[-1:], "") is not None


def token_rows(input_ids: Any) -> np.ndarray:
    """`input_ids` [rows, length], or [length] for one row, as int64 [rows, length]; from NumPy, torch or
    lists."""
    on_host = input_ids.detach().cpu() if hasattr(input_ids, "detach") else input_ids
    rows = np.atleast_2d(np.asarray(on_host))
    if rows.ndim != 2 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"input_ids are {rows.dtype} {list(rows.shape)}; allowed are integers [rows, length]")
    return rows.astype(np.int64, copy=False)


def flags_like(input_ids: Any, flags: Any) -> Any:
    """bool [rows] as a NumPy array, or as a tensor beside `input_ids` if that is a tensor of torch."""
    flags = np.asarray(flags, bool)
    if hasattr(input_ids, "new_tensor"):
        return input_ids.new_tensor(flags.tolist()).bool()
    return flags


@dataclass(frozen=True)
class Watch:
    """When a stopping criterion can have a verdict: at a token in `token_ids`, and whenever the output
    has `output_length` tokens or more."""

    token_ids: Collection[int] = ()
    output_length: int | None = None


@dataclass(frozen=True)
class StopVerdict:
    """Why a request ends.

    reason         the stop string, token id or criterion name; None for EOS.
    finish_reason  stop, length, repetition, …
    cut            bytes at the end of the text, counted from the end of the newest token, that do not
                   belong to it: a stop string, or a stop token. What has been streamed already stays.
    """

    reason: str | int | None
    finish_reason: str = "stop"
    cut: int = 0


class TextMatch(NamedTuple):
    """The end of a text, found in the bytes that came last; all places count from their beginning.

    end       behind the byte that decided; the earliest wins.
    text_end  where the text is cut: negative for what came before.
    reason    the request's stop_reason.
    """

    end: int
    text_end: int
    reason: str | int | None


class TextMatcher:
    """Finds the end of a text in its bytes: an automaton that nothing changes.

    start  the state of the empty text. States are hashable, and from equal ones equal things follow.
    """

    start: Hashable

    def advance(self, state: Any, data: bytes) -> tuple[Hashable, TextMatch | None]:
        """The state behind `data`, and the first match that ends in it. The state goes on beyond a match."""
        raise NotImplementedError

    def held(self, state: Any) -> int:
        """How many bytes at the end of the text may still be cut off by a later match."""
        raise NotImplementedError


class TextCriteria(StoppingCriteria):
    """Ends requests by their text, found by a `TextMatcher`.

    Text that a match may still cut off is held back by the scheduler, and not one character more: it runs
    the matcher itself, and shares what it learns among all requests with the same matcher. Matches that end
    within the first `min_tokens` tokens do not count.
    """

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> TextMatcher:
        """The matcher for a request; the same object for the same values, where that is easy."""
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
    """Where a `TextMatcher` is in one text: its states, before the first token and behind each."""

    matcher: TextMatcher
    tokenizer: Tokenizer
    skip_special_tokens: bool
    states: list[Hashable]

    def advance(self, token_ids: Iterable[int]) -> StopVerdict | None:
        """Read more tokens: the verdict of the first match among them."""
        found: TextMatch | None = None
        behind = 0
        for token_id in token_ids:
            data = self.tokenizer.text_bytes(token_id, self.skip_special_tokens)
            state, match = self.matcher.advance(self.states[-1], data)
            self.states.append(state)
            behind += len(data)
            if found is None and match is not None:
                found, behind = match, len(data)
        return None if found is None else StopVerdict(found.reason, cut=behind - found.text_end)
