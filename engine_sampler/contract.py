"""What plugins subclass: `Sampler`, `Truncation`, `Selector`, `StoppingCriteria`, `TextCriteria`, `Backend`.

This module imports nothing else of the package, so a plugin can be read, typed and tested against
it alone. A sampler maps rows of logits to rows of logits; a selector ends the chain by choosing
one token per row; a stopping criterion ends a request; a backend runs whole chains.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .chain import Chain
    from .rows import Rows
    from .tokenizer import Tokenizer

PLUGIN_API = 1
"""The version of this contract; a plugin class with another `api` is refused with that reason."""

State = Any


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside what is allowed."""


@dataclass(frozen=True)
class Param:
    """One request parameter: its name, type, neutral value and bounds.

    type      float, int, bool or str for scalars; any other type (dict, list, tuple, object) for
              values that `convert` brings into an immutable form.
    neutral   the value that changes nothing, bit for bit. None makes None an allowed value.
    low, high inclusive bounds of a number; `low_open` excludes `low` itself.
    choices   the allowed values of a string or integer.
    switch    whether a non-neutral value turns the owner on. A threshold that only matters beside
              another parameter has switch=False.
    convert   called with a value of a composite type; returns the normalised, hashable value or
              raises ValueError or TypeError with what is allowed.
    doc       one line for listings.
    """

    name: str
    type: type
    neutral: Any
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    choices: tuple[Any, ...] | None = None
    switch: bool = True
    convert: Callable[[Any], Any] | None = None
    doc: str = ""

    def check(self, value: Any) -> Any:
        """Return `value` in its normal form, or raise `ParameterError` saying what is allowed."""
        if value is None and self.neutral is None:
            return None
        try:
            checked = self.convert(value) if self.convert else self._scalar(value)
        except OverflowError:
            raise self.error(value, self.allowed()) from None
        except (TypeError, ValueError) as error:
            raise self.error(value, str(error)) from None
        if self.choices is not None and checked not in self.choices:
            raise self.error(value, "one of " + ", ".join(map(repr, self.choices)))
        is_number = isinstance(checked, (int, float)) and not isinstance(checked, bool)
        if is_number and not self._inside(checked):
            raise self.error(value, self.allowed())
        return checked

    def error(self, value: Any, allowed: str) -> ParameterError:
        """The error for `value`, naming the parameter and what is allowed."""
        return ParameterError(f"{self.name}={value!r} is not allowed: {allowed}")

    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices is not None:
            return "one of " + ", ".join(map(repr, self.choices))
        kind = {int: "an integer", float: "a finite number", bool: "True or False", str: "a string"}
        text = kind.get(self.type, f"a {self.type.__name__}")
        if self.low is not None:
            text += f" {'above' if self.low_open else 'of at least'} {self.low:g}"
        if self.high is not None:
            text += f"{' and' if self.low is not None else ' of'} at most {self.high:g}"
        return text + (", or None" if self.neutral is None else "")

    def _scalar(self, value: Any) -> Any:
        is_bool = isinstance(value, (bool, np.bool_))
        if self.type is bool and is_bool:
            return bool(value)
        if self.type is str and isinstance(value, str):
            return value
        if self.type is int and not is_bool:
            is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
            if is_whole or isinstance(value, (int, np.integer)):
                if abs(value) < 2**63:
                    return int(value)
                raise ValueError("an integer of 64 bits")
        if self.type is float and not is_bool and isinstance(value, (int, float, np.number)):
            number = float(value)
            if math.isfinite(number):
                return number
        raise TypeError(self.allowed())

    def _inside(self, value: float) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        return self.high is None or value <= self.high


@dataclass(frozen=True)
class Vocabulary:
    """What is known of the tokens: how many, which end a text, and their bytes if a tokenizer is given."""

    size: int
    eos_token_ids: tuple[int, ...] = ()
    tokenizer: Tokenizer | None = None

    def check_ids(self, parameter: str, token_ids: Iterable[int]) -> None:
        """Raise `ParameterError` for the first id of `parameter` outside 0..size-1."""
        for token_id in token_ids:
            if not 0 <= token_id < self.size:
                raise ParameterError(
                    f"{parameter} names token id {token_id}, allowed are 0 to {self.size - 1}"
                )

    def need_tokenizer(self, parameter: str) -> Tokenizer:
        """The tokenizer, or `ParameterError` saying that `parameter` needs one."""
        if self.tokenizer is None:
            raise ParameterError(f"{parameter} is given as text, which needs a tokenizer")
        return self.tokenizer


@dataclass(frozen=True)
class Example:
    """One worked case: `logits` in, `expect` out (−inf = removed), for `params` and a history.

    Examples are run by the contract kit and shown in the docs; `expect` is compared with a
    relative tolerance of 1e-5. With `token` the selector's choice is checked instead of a row. A part
    that needs text finds it in `token_bytes`, the bytes of every token.
    """

    logits: tuple[float, ...]
    params: Mapping[str, Any]
    expect: tuple[float, ...] | None = None
    prompt_token_ids: tuple[int, ...] = ()
    output_token_ids: tuple[int, ...] = ()
    eos_token_ids: tuple[int, ...] = ()
    token_bytes: tuple[bytes, ...] = ()
    token: int | None = None
    note: str = ""


Role = Literal["edit", "penalty", "warp"]


class Stateful:
    """State of one request: made by `new_state`, then kept in step with its tokens.

    `new_state` may return any object, or None for no state. The defaults fit a sampler without
    state; one with state overrides `new_state` and `accept`, and `rollback` unless `accept` keeps
    nothing. `fork` copies deeply unless overridden.
    """

    deferred: ClassVar[bool] = False
    """True if `accept` may be called later and with several tokens at once: the state is brought up to
    date when it is asked for. The state must follow from parameters, tokens and notes alone."""

    def accept(self, state: State, token_ids: Sequence[int]) -> None:
        """Take note of tokens that joined the request's output."""

    def rollback(self, state: State, n: int) -> None:
        """Undo the last `n` accepted tokens, exactly."""

    def fork(self, state: State) -> State:
        """An independent copy for a sibling request."""
        return copy.deepcopy(state)


class Sampler(Stateful):
    """One step of a chain: float32 logits [n, columns] in, the same array changed in place.

    name      also the name used in `order` lists.
    after     the sampler of the default order behind which a plugin's stands.
    role      "edit" samplers come first, in a fixed place (masks, biases); "penalty" samplers
              read the history; "warp" is everything else.
    params    the parameters this sampler owns.
    argmax_invariant  True if the first token in (logit desc, id asc) order is never changed. Such
              a sampler may be skipped where the token is chosen greedily.

    `apply` must be right on any ascending subset of token ids that holds all tokens which are not
    −inf: backends drop removed columns and pass `rows.ids`.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    after: ClassVar[str | None] = None
    role: ClassVar[Role] = "warp"
    params: ClassVar[tuple[Param, ...]] = ()
    argmax_invariant: ClassVar[bool] = False
    examples: ClassVar[tuple[Example, ...]] = ()
    row_function: ClassVar[Any] = None
    """A C function that does to one row what `apply` does, bit for bit: the address of an
    `es_row_function` (native/include/engine_sampler.h), an int or a cffi pointer. Compiled backends call
    it inside their loop; without one they call `apply`, row by row. It finds the parameters that are
    numbers or bools in `es_row.values`, in declared order. Not used if the sampler is `deferred`."""

    def row_state(self, state: State) -> int:
        """The address that `row_function` gets as its `state`: of memory that `accept`, `rollback` and
        `fork` keep in step, and that stays where it is as long as `state`. 0 is NULL."""
        return 0

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` (every parameter by name) make this sampler do anything."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed alone but not together."""

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
        """Immutable data of one request, worked out once: id arrays, tokenised strings.

        It is `rows.resolved[i]` in `apply`. Raises `ParameterError` for ids outside the
        vocabulary and for text without a tokenizer.
        """
        return None

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> State:
        """The mutable state of one request, or None."""
        return None

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        """Change float32 `logits` [n, columns] in place; −inf removes a token."""
        raise NotImplementedError


class Truncation(Sampler):
    """A sampler that only removes tokens: it says which columns stay.

    Backends use `keep` directly, so that later samplers see only the survivors.
    """

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """bool [n, columns], True where a token stays; `logits` is only read.

        Columns that are −inf may be reported either way. At least one finite column of every row
        must stay.
        """
        raise NotImplementedError

    def keep_columns(self, row: np.ndarray, rows: Rows) -> np.ndarray | None:
        """The columns of one wide row [m] that stay, ascending; the same that `keep` would report.

        Optional, for a truncation that finds its few survivors without writing a mask. None: ask
        `keep`.
        """
        return None

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        """Set every column that `keep` drops to −inf."""
        logits[~self.keep(logits, rows)] = -np.inf


@dataclass
class Selection:
    """What a selector chose: one column per row, and a number it wants back on `accept`.

    columns  int64 [n], the column of the chosen token (`rows.token_ids_at(columns)` is its id).
    notes    float64 [n] or None: for example the surprise of the drawn token, which moves
             mirostat's mu when, and only when, the token is accepted.
    """

    columns: np.ndarray
    notes: np.ndarray | None = None


class Selector(Stateful):
    """The end of a chain: chooses one surviving token per row."""

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    params: ClassVar[tuple[Param, ...]] = ()
    ignores_warps: ClassVar[bool] = False
    """True if the chain keeps only edits, penalties and temperature before this selector."""
    examples: ClassVar[tuple[Example, ...]] = ()

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` ask for this selector."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed alone but not together."""

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> State:
        """The mutable state of one request, or None."""
        return None

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        """Choose a column for each row of float32 `logits` [n, columns], which is only read.

        Every row has at least one finite column. Randomness comes from `rows.draw` alone.
        """
        raise NotImplementedError

    def accept(self, state: State, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        """Take note of accepted tokens; `notes` holds None for tokens chosen elsewhere."""


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


@dataclass
class Group:
    """Rows of one step that share a plan.

    plan      what `Backend.compile` returned for the chain of these rows.
    index     int64 [n], their rows in `Batch.logits`.
    rows      parameters, states and histories of these rows.
    masked    whether `Batch.bitmask` holds a grammar's mask for these rows.
    want_processed  whether `Batch.survivors` must be filled for these rows.
    """

    plan: Any
    index: np.ndarray
    rows: Rows
    masked: bool = False
    want_processed: bool = False


@dataclass
class Batch:
    """One step for a backend: inputs, and outputs that `Backend.run` fills in.

    logits     a `arrays.LogitRows`: row i as float32 [vocab] on demand, never written.
    bitmask    int32 [rows, ceil(vocab / 32)] or None: bit 1 = token allowed by the grammar.
    token_ids  int64 [rows], −1 where a row gave nothing.
    notes      float64 [rows], the selector's notes, NaN where there are none.
    errors     a text for every row that failed, else None.
    survivors  (ids int64 [m], logits float32 [m]) after the whole chain, where wanted.
    cache      lives as long as these groups and their rows' places are unchanged; a backend may keep
               what it prepared for them.
    """

    logits: Any
    groups: list[Group]
    token_ids: np.ndarray
    notes: np.ndarray
    errors: list[str | None]
    bitmask: np.ndarray | None = None
    survivors: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    cache: dict[Any, Any] = field(default_factory=dict)


class Backend:
    """Runs chains. `exact` backends return the same tokens as the NumPy reference, by equality.

    A chain compiles once to a plan; `run` then takes all rows of a step, each group with its plan.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    exact: ClassVar[bool] = True
    reason: str = ""
    """Why this backend cannot be used on this machine, in words; empty if it can."""

    def score(self, device: str) -> float:
        """How good this backend is for logits on `device` ("cpu", "cuda:0", …); 0 = unusable."""
        return 0.0

    def supports(self, sampler: Sampler | Selector) -> bool:
        """Whether this backend runs `sampler` itself; others run on the host, row-exactly."""
        return True

    def compile(self, chain: Chain) -> Any:
        """A plan for `chain`; called once per configuration."""
        raise NotImplementedError

    def apply(self, plan: Any, logits: np.ndarray, rows: Rows) -> None:
        """Run the plan's samplers, without the selector, on float32 `logits` [n, vocab] in place."""
        raise NotImplementedError

    def select(self, plan: Any, logits: np.ndarray, rows: Rows) -> Selection:
        """Run the plan's selector on rows that went through `apply`."""
        raise NotImplementedError

    def run(self, batch: Batch) -> None:
        """The fused path: fill `batch` for all its groups. A fault stays within its row."""
        raise NotImplementedError

    def log_sums(self, logits: Any, rows: Sequence[int]) -> Sequence[float] | None:
        """ln Σ exp(l) of some rows of a `arrays.LogitRows`, for logprobs, within 1e-5; None: work it out
        yourself. Rows that gave a token only."""
        return None
