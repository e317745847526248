"""`Sampler`, `Truncation` and `Selector`: the steps of a chain."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ..arithmetic import SELECTOR_STREAM, stream_of
from ..base.arrays import array_from
from ..base.errors import PluginFault, described
from .params import Param
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from .rows import Rows
    from .work import Work

PLUGIN_API = 1
"""The version of this contract; a plugin class with another `api` is refused, and the error says so."""


State = Any


@dataclass(frozen=True)
class Example:
    """One worked case: `logits` in, `expect` out (−inf = removed), for `params` and a history. The contract
    kit runs the examples, and the docs show them.

    expect         the row afterwards, compared with a relative tolerance of 1e-5.
    prompt_token_ids, output_token_ids  the history; default: none.
    eos_token_ids  those of the vocabulary.
    token_bytes    the bytes of every token, for a sampler or selector that needs text.
    token          the selector's choice, which is checked instead of a row.
    note           a few words for the docs.
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

Cost = Literal["pass", "select", "sort", "history", "bytes"]


class Stateful:
    """The state of one request: created by `new_state`, then kept in step with its tokens.

    `new_state` may return any object, or None for no state. The prompt that it gets, int64 and not to be
    written to, stays as it is and may be kept: a state that is made of it when it is first needed costs `add`
    nothing. The defaults suit a sampler without state; one with state overrides `new_state` and `accept`, and
    also `rollback` unless `accept` changes nothing. `fork` makes a deep copy unless overridden.
    """

    lazy: ClassVar[bool] = False
    """True if `accept` may be called later and with several tokens at once: the state is brought up to
    date when it is read. It must be determined by parameters, tokens and notes alone."""

    def accept(self, state: State, token_ids: Sequence[int]) -> None:
        """Update `state` with tokens that were appended to the request's output."""

    def rollback(self, state: State, n: int) -> None:
        """Undo the last `n` accepted tokens, exactly."""

    def fork(self, state: State) -> State:
        """An independent copy for a sibling request."""
        return copy.deepcopy(state)


class Sampler(Stateful):
    """One step of a chain: float32 logits [n, columns] in, the same array changed in place.

    name      also the name used in `order` lists.
    after     the sampler that a plugin's sampler directly follows in every named order. It must be
              registered, by any plugin, and not be an edit. None: a penalty follows the built-in penalties,
              any other sampler comes last.
    instead_of  the sampler in whose place this one stands in every order, if its parameters turn it on: the
              same step with parameters that the C kernels lack. It has that one's role and costs no more;
              orders name that one. It is on only if one of its own switches is not neutral.
    role      "edit" samplers (masks, biases) come first, in a fixed order; "penalty" samplers
              read the history; "warp" is everything else.
    params    the parameters that this sampler owns.
    cost      the most work that it does on a row: "pass", a few passes over the columns; "select", finding
              those that are above a cut; "sort", as much as sorting them; "history", in proportion to the
              tokens of the request; "bytes", to the bytes of all columns' tokens. The sum over a chain is
              bounded, and that over all rows of a request.
    argmax_invariant  True if the first token in (logit desc, id asc) order never changes. Such a
              sampler may be skipped if the token is chosen greedily.
    restores  True if a removed token may come back, as the only one of its row.
    takes_grammar  True if `resolve` takes the grammar that the request's parameters give
              (`grammar.constraint_of`): in a chain with this sampler, it masks nothing. For edits alone.
    examples  at least one `Example`, which the contract kit runs.
    row_function  None, or a C function that does to one row exactly what `apply` does, bit for bit: the
              address of an `es_row_function` (native/include/engine_sampler.h), as an int or a cffi pointer.
              Compiled backends call it inside their loop; without one they call `apply` row by row. Its
              parameters that are numbers or bools are in `es_row.values`, in declared order. Not used if the
              sampler is `lazy`.

    `apply` must be correct on any ascending subset of token ids that contains all tokens with a
    logit above −inf: backends drop removed columns and pass `rows.ids`.

    A state is given parameters and tokens, but no vocabulary: what needs its size, its EOS ids or the bytes
    of tokens belongs into `resolve`, or is read from `rows.vocabulary` in `apply`.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    after: ClassVar[str | None] = None
    instead_of: ClassVar[str | None] = None
    role: ClassVar[Role] = "warp"
    params: ClassVar[tuple[Param, ...]] = ()
    cost: ClassVar[Cost] = "sort"
    argmax_invariant: ClassVar[bool] = False
    restores: ClassVar[bool] = False
    takes_grammar: ClassVar[bool] = False
    examples: ClassVar[tuple[Example, ...]] = ()
    row_function: ClassVar[Any] = None

    @property
    def stream(self) -> int:
        """The number of this sampler's random stream, which is derived from its name."""
        return stream_of(self.name)

    def row_state(self, state: State) -> int:
        """The address passed to `row_function` as its `state`. The memory there is kept in step by `accept`,
        `rollback` and `fork`, and must not move during the lifetime of `state`. 0 is NULL. Called once for
        each state."""
        return 0

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` (every parameter by name) give this sampler anything to do."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed separately but not together. Called for requests
        that give one of the `params`."""

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Any:
        """The immutable data of one request, computed once: id arrays, tokenised strings.

        `apply` finds it in `rows.resolved[i]`. Raises `ParameterError` for ids outside the
        vocabulary and for text without a tokenizer.
        """
        return None

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> State:
        """The mutable state of one request, or None."""
        return None

    def prepare(self, rows: Rows, work: Work | None) -> None:
        """What may take long before `apply`, for one request: `rows` has its single row. Optional.

        Called before each step's chains run, and ahead of them by `Scheduler.prepare`. It keeps what it finds
        in the request's state. If that takes more than `work`, it raises UnfinishedError: the request is
        postponed, which means that the step leaves it out and the next one calls this again, to continue.
        Without `work` it takes as long as it needs. `apply` gives the same result if this was not called, as
        in `explain`.
        """

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        """Change float32 `logits` [n, columns] in place; −inf removes a token. Nothing is returned."""
        raise NotImplementedError


class Truncation(Sampler):
    """A sampler that only removes tokens: it states which columns stay.

    Backends call `keep` directly, so that later samplers see only the survivors. Nobody but `keep` sees to
    `min_keep`: a truncation that heeds this parameter reads `rows["min_keep"]`.
    """

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """bool [n, columns], True where a token stays; `logits` must not be changed.

        A column of −inf may be reported either way. At least one finite column of every row must
        stay.
        """
        raise NotImplementedError

    def keep_columns(self, row: np.ndarray, rows: Rows) -> np.ndarray | None:
        """The columns of one wide row [m] that stay, ascending; the same ones that `keep` reports.

        Optional, for a truncation that finds its few survivors without building a mask. With None,
        `keep` is called instead.
        """
        return None

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        """Set every column that `keep` drops to −inf."""
        logits[~self.kept(logits, rows)] = -np.inf

    def kept(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """The result of `keep`; raises `PluginFault` unless it is a bool array of the shape of `logits`."""
        mask = self.keep(logits, rows)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != logits.shape:
            raise PluginFault(
                f"{self.name} failed: keep must return a bool array of shape {logits.shape}, "
                f"not {described(mask)}"
            )
        return np.asarray(mask)

    def kept_columns(self, row: np.ndarray, rows: Rows) -> np.ndarray:
        """The columns of one row [m] that stay, from `keep_columns` or `keep`; raises `PluginFault` unless
        they are ascending indices of `row`."""
        columns = self.keep_columns(row, rows)
        if columns is None:
            return np.flatnonzero(self.kept(row[None], rows)[0])
        kept = array_from(columns, len(row))
        is_index = kept.ndim == 1 and kept.dtype.kind in "iu"
        if not is_index or (
            len(kept) and (kept[0] < 0 or kept[-1] >= len(row) or (kept[1:] <= kept[:-1]).any())
        ):
            raise PluginFault(
                f"{self.name} failed: keep_columns must return ascending columns of {len(row)}, "
                f"not {described(columns)}"
            )
        return kept


@dataclass
class Selection:
    """A selector's choice: one column per row, and optionally a number that `accept` receives later.

    columns  int64 [n], the column of the chosen token (`rows.token_ids_at(columns)` is its id).
    notes    float64 [n] or None: for example the surprise of the drawn token, which changes
             mirostat's mu if and only if the token is accepted.
    """

    columns: np.ndarray
    notes: np.ndarray | None = None


class Selector(Stateful):
    """The last step of a chain: chooses one surviving token per row."""

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    stream: ClassVar[int] = SELECTOR_STREAM
    params: ClassVar[tuple[Param, ...]] = ()
    ignores_warps: ClassVar[bool] = False
    """True if the chain keeps only edits, penalties and temperature before this selector."""
    examples: ClassVar[tuple[Example, ...]] = ()

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether `params` request this selector."""
        return any(p.switch and params[p.name] != p.neutral for p in self.params)

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed separately but not together. Called for requests
        that give one of the `params`."""

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> State:
        """The mutable state of one request, or None."""
        return None

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        """Choose a column for each row of float32 `logits` [n, columns], which must not be changed.

        Every row has at least one finite column. `rows.draw` is the only source of randomness.
        """
        raise NotImplementedError

    def candidates(
        self, logits: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, Mapping[str, np.ndarray]] | None:
        """Which columns `select` may choose, bool [n, columns], and the figures that decide it, [n] by name,
        for `explain`; None if it may choose every remaining one."""
        return None

    def accept(self, state: State, token_ids: Sequence[int], notes: Sequence[float | None] = ()) -> None:
        """Update `state` with accepted tokens; `notes` holds None for tokens chosen elsewhere."""
