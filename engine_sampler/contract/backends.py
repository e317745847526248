"""`Backend`: runs whole chains for all rows of a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..arithmetic import LogitRows, Logprobs
from .samplers import PLUGIN_API, Sampler, Selection, Selector

if TYPE_CHECKING:
    from .chains import Chain
    from .rows import Rows
    from .slots import SlotTable


@dataclass
class Group:
    """Rows of one step that share a plan.

    plan      what `Backend.compile` returned for the chain of these rows.
    index     int64 [n], the indices of these rows in `Batch.logits`.
    rows      parameters, states and histories of these rows.
    masked    whether `Batch.bitmask` holds a grammar's mask for these rows.
    want_processed  whether `Batch.survivors` must be filled for these rows; `process` wants all rows.
    want_survivors  whether that holds even for rows whose logprobs the backend writes, for which nobody needs
              survivors otherwise. `want_processed` is true then.
    edits     the plan of the chain's masks, biases and penalties alone, if penalized logprobs of these rows
              are needed.
    """

    plan: Any
    index: np.ndarray
    rows: Rows
    masked: bool = False
    want_processed: bool = False
    edits: Any = None
    want_survivors: bool = False


LOGPROBS_KINDS = ("raw", "penalized", "processed")
"""The distributions that logprobs are taken from; bit i of `LogprobsRequest.kinds` is number i."""


@dataclass
class LogprobsRequest:
    """The logprobs that a step needs, by row of the logits, and where a backend may write them.

    kinds  uint8 [rows], the bits of the kinds that are needed.
    top_n  int64 [rows], how many of the likeliest tokens to list; −1 = all.
    out    one `Logprobs` over the rows for each kind, None if no row needs it.
    done   bool [rows]: rows whose logprobs a backend has written. A backend need not write any: the host
           computes what is left, from `Batch.logits` and `Batch.survivors`.
    """

    kinds: np.ndarray
    top_n: np.ndarray
    out: tuple[Logprobs | None, Logprobs | None, Logprobs | None]
    done: np.ndarray


@dataclass
class PreparedMasks:
    """Grammar masks that a backend has taken over before the step.

    handle   what `Backend.prepare_masks` returned for them.
    changed  the rows of `Batch.bitmask` that have been filled since; all others are as they were then.
    """

    handle: Any
    changed: Collection[int]


@dataclass
class Batch:
    """One step for a backend: the inputs, and the outputs that `Backend.run` fills in.

    logits     an `arithmetic.LogitRows`: row i as float32 [vocab] on demand, never written. Logits on a
               device that the backend `reads_from` are there as `source`; all others are on the host.
    bitmask    int32 [rows, ceil(vocab / 32)] or None: bit 1 = token allowed by the grammar.
    token_ids  int64 [rows], −1 for a row that yielded no token.
    notes      float64 [rows], the selector's notes, NaN where there are none.
    errors     a message for every row that failed, else None; a `NoTokenLeft` if it failed because masks,
               edits and samplers have left no token.
    survivors  (ids int64 [m], logits float32 [m]) after the whole chain, for rows that request them.
    logprobs   the logprobs that are needed, None if none are.
    cache      lives as long as these groups and the positions of their rows are unchanged; a backend may
               cache here what it has prepared for them.
    prepared_masks  the masks of `bitmask` that the backend has already taken over; None if there are none.
    token_ids_on_device  the values of `token_ids` as a tensor on the device of the logits, if the backend has
               one, else None.
    ahead      (draft token ids, first rows), int64 [rows] each, in a step whose rows of drafts are drawn
               together: row r continues the draft of that number, −1 if it continues its request, whose first
               row is named. It counts only if each row of its request before it gave the token that was
               guessed; `token_ids_on_device` is −1 where a row does not. None in all other steps.
    processed  float32 [rows, vocab] that the rows after their chains are written to, −inf = removed, in place
               of tokens and survivors: by the backends of the host, for `process`. None in a step.
    rows_move  whether `Group.index` of these groups may have been rewritten since the last run with this
               `cache`: only for a backend that `follows_rows`.
    """

    logits: Any
    groups: list[Group]
    token_ids: np.ndarray
    notes: np.ndarray
    errors: list[str | None]
    bitmask: np.ndarray | None = None
    survivors: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    logprobs: LogprobsRequest | None = None
    cache: dict[Any, Any] = field(default_factory=dict)
    prepared_masks: PreparedMasks | None = None
    token_ids_on_device: Any = None
    ahead: tuple[np.ndarray, np.ndarray] | None = None
    processed: np.ndarray | None = None
    rows_move: bool = False


class NoTokenLeft(str):
    """The error of a row whose tokens masks, edits and samplers have all removed. Without some of them it may
    have one: a request gives up its bans then. After any other text, it ends."""

    __slots__ = ()


class Backend:
    """Runs chains. An `exact` backend returns exactly the tokens that the NumPy reference returns.

    A chain is compiled once to a plan; `run` then takes all rows of a step, each group with its plan.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    exact: ClassVar[bool] = True
    hosts_the_rest: ClassVar[bool] = False
    """True if `run` takes every chain, and passes to the host itself what `supports` excludes."""
    follows_rows: ClassVar[bool] = False
    """Whether what it keeps in `Batch.cache` on the host serves groups whose rows move, see
    `Batch.rows_move`: one round of drafts after the other. Without it, it prepares each round anew."""
    reason: str = ""
    """Why this backend cannot be used on this machine, as a message; empty if it can."""

    def score(self, device: str) -> float:
        """How good this backend is for logits on `device` ("cpu", "cuda:0", …); 0 = unusable.

        NumPy has 1 and the C kernels have 2. `backend="auto"` takes the exact backend with the highest score,
        that of a plugin only for a device that it `reads_from`: on the host, plugins' backends are used by
        name.
        """
        return 0.0

    def reads_from(self, device: str) -> bool:
        """Whether `run` and `process` read logits on `device`, which is not the host, where they lie. All
        others are copied to the host as a whole, before anything changes."""
        return False

    def supports(self, sampler: Sampler | Selector) -> bool:
        """Whether this backend runs `sampler`. Chains with a part that it does not support run on the host as
        a whole; `run` gets them only if `hosts_the_rest`."""
        return True

    def runs(self, part: Sampler | Selector, chain: Chain) -> bool:
        """Whether this backend, which `hosts_the_rest`, runs `part` of `chain` itself; for listings."""
        return self.supports(part)

    def runs_as(self, sampler: Sampler | Selector) -> str:
        """What runs a supported `sampler`, for listings: this backend's name, "Python" for the sampler's own
        class, "C row function" for its C function."""
        return self.name

    def compile(self, chain: Chain) -> Any:
        """Compile `chain` to a plan; called once per configuration."""
        raise NotImplementedError

    def apply(self, plan: Any, logits: np.ndarray, rows: Rows) -> None:
        """Run the plan's samplers, without the selector, on float32 `logits` [n, vocab] in place."""
        raise NotImplementedError

    def select(self, plan: Any, logits: np.ndarray, rows: Rows) -> Selection:
        """Run the plan's selector on rows that went through `apply`."""
        raise NotImplementedError

    def run(self, batch: Batch) -> None:
        """The fused path: fill `batch` for all its groups. A fault affects only its own row.

        An exception leaves all rows of the step without tokens, which ends their requests; `BackendError`
        passes through instead, and changes nothing.
        """
        raise NotImplementedError

    def begin(self, batch: Batch) -> Callable[[], None] | None:
        """The first half of `run`, for `Scheduler.begin`: queue the work of the step on the device, so that
        the host need not wait. Returns what does the rest, called once unless the step is given up; None if
        all is done; its method `is_done`, if it has one, tells whether it would not wait.
        `batch.token_ids_on_device` is there at once, if it will be there at all.
        """
        self.run(batch)
        return None

    def draws_ahead(self, plan: Any) -> bool:
        """Whether the rows of a request and of its drafts are to be drawn in one step, all at once: for plans
        whose draws follow from logits, masks, parameters, seed and position, whatever the history. By default
        drafts are drawn one after the other, as long as they are right."""
        return False

    def follows_drafts(self, plan: Any, tokens: int) -> bool:
        """The same for plans whose draws depend on histories, too: `Rows` show these with the drafts in them,
        row by row, and states that have followed these.

        tokens  how long the histories of the rows of drafts are, all together.
        """
        return False

    def repeated(self, cache: dict[Any, Any]) -> Callable[[np.ndarray], bool] | None:
        """For a backend that `follows_rows`, and has just run a batch with this `cache`: a function that runs
        it once more, with other rows (int64 [n], group by group) and everything else as it is. It returns
        False if that has not given each of them a token; `run` is called for them then. None: there is no
        shorter way than `run`."""
        return None

    def process(self, batch: Batch) -> Any:
        """The rows after their chains, without selectors: float32 [rows, vocab], new, on the device of the
        logits, −inf = removed. NaN for rows of no group, and for rows that fail, whose reasons go to
        `batch.errors`: rows that are faulty as logits, and those without a finite best token after the chain.
        None if this backend leaves that to the host."""
        return None

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> Any:
        """Start to copy grammar masks to `device`, where the logits of the last step lay, while the forward
        pass runs; called by `Scheduler.prepare`.

        bitmask  int32 [requests, ceil(vocab / 32)]; it changes after this call.
        rows     which of its rows hold masks.

        The next step passes what this returns to `run`, as `Batch.prepared_masks`. It does so if its logits
        have one row for each of these requests in the same order. None: nothing is prepared.
        """
        return None

    def decisions(self, slots: SlotTable, plan: Any = None) -> tuple[int, int]:
        """How many draws and cuts bounds of the weights have decided, and how many they left open.

        Counted for the requests of `slots` so far, of `plan` or of all plans. A row whose outcome is decided
        was read once; where it is left open, the whole row was weighed. Called between steps; (0, 0) for a
        backend that knows no such bounds."""
        return 0, 0

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        """The logprobs of `token_ids` int64 [rows], one for each row of `logits`, and of the `top_n`
        likeliest tokens (−1 = all), as `row_logprobs` defines them; faulty rows have no entries. None if
        this backend leaves that to the host."""
        return None
