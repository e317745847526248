"""`Sampler`, `Truncation` and `Selector`: the steps of a chain."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ..arithmetic import SELECTOR_STREAM, stream_of
from .params import Param
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from .rows import Rows

PLUGIN_API = 1
"""The version of this contract; a plugin class with another `api` is refused with that reason."""


State = Any


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

    @property
    def stream(self) -> int:
        """The number of this sampler's random stream, which follows from its name."""
        return stream_of(self.name)

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
    stream: ClassVar[int] = SELECTOR_STREAM
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
