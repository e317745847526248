"""`GroupPiece`: some rows of one group, what is uploaded for them, and what they must give."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from engine_sampler.contract import LOGPROBS_KINDS, Batch, Group, LogprobsRequest, Rows, Sampler, Selector

from ..steps import DeviceSelector, DeviceStep, Given
from .masks import PieceMasks
from .plan import DevicePlan
from .tables import ListedRows, Revision
from .transfer import Upload

WORKING_BYTES = 512 << 20
"""The rows that are worked on together need at most so much memory, or as much as the logits."""
BYTES_PER_LOGIT = 40
"""What a logit needs while its row is worked on: float32 values, distances, int64 weights and sort keys."""
_OWN = __name__.partition(".")[0] + "."
MOST_LISTED = 1024
"""Rows that list more likeliest tokens than this get their logprobs on the host."""


def pieces_of(
    group: Group,
    logits: Tensor,
    kept: Upload,
    *,
    choosing: bool = True,
    listing: bool = False,
    in_parts: bool = True,
) -> list[GroupPiece]:
    """The rows of a group in pieces of bounded size, or all of them as one unless `in_parts`; `choosing`:
    whether their selector runs; `listing`: whether there are tables of what they edit. What stays as it is in
    later steps is added to `kept`."""
    rows = len(group.index)
    most = most_rows(logits, group.rows.vocabulary.size) if in_parts else rows
    return [GroupPiece(group, some, logits, kept, choosing, listing) for some in _parts(rows, most)]


def most_rows(logits: Tensor, vocab_size: int) -> int:
    """How many whole rows may be worked on together."""
    room = max(WORKING_BYTES, logits.numel() * logits.element_size())
    return max(1, room // (BYTES_PER_LOGIT * vocab_size))


def _parts(n: int, most: int) -> Iterator[slice]:
    for start in range(0, n, most):
        yield slice(start, min(start + most, n))


class Inputs:
    """The inputs of one step or selector: numbers of uploaded arrays, and what `fixed` gave.

    part  the step or selector.
    """

    def __init__(
        self, part: DeviceStep | DeviceSelector, owner: Sampler | Selector, rows: Rows, kept: Upload
    ) -> None:
        self.part = part
        self._owner = owner
        self._rows = rows.bind(owner)
        self._given: Given | None = None
        self.fixed: Any = None
        if part.parameters_only:
            self._ask(self._rows, kept)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the uploaded arrays, by name."""
        return self._numbers

    def again(self) -> Mapping[str, np.ndarray] | None:
        """The arrays of the next step without masks; None if `fixed` is no longer what it was."""
        return self.part.inputs(self._rows) if self.part.fixed(self._rows) == self.fixed else None

    def begin(self, under: Rows | None, upload: Upload) -> None:
        """Ask for those of a step, unless they are there for all; `under`: the rows under its masks."""
        if not self.part.parameters_only:
            self._ask(self._rows if under is None else under.bind(self._owner), upload)

    def _ask(self, rows: Rows, upload: Upload) -> None:
        self.fixed = self.part.fixed(rows)
        self._numbers = {name: upload.add(array) for name, array in self.part.inputs(rows).items()}
        self._upload, self._given = upload, None

    def first(self, n: int) -> dict[str, np.ndarray]:
        """Copies of the arrays, of the first `n` rows or, if there are fewer, of as many like these."""
        arrays = {name: self._upload.array(number) for name, number in self._numbers.items()}
        return {name: np.resize(array[:n], (n, *array.shape[1:])) for name, array in arrays.items()}

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of an array, whether it is on the device yet or not."""
        return self._upload.array(self._numbers[name]).shape

    @property
    def given(self) -> Given:
        """The arrays on the device."""
        if self._given is None:
            self._given = {name: self._upload[number] for name, number in self._numbers.items()}
        return self._given


def leading_edits(steps: Sequence[DeviceStep]) -> int:
    """How many steps, from the first on, change a few listed tokens only."""
    return next((i for i, step in enumerate(steps) if not step.sparse_ids), len(steps))


class GroupPiece:
    """Rows of one group that run together, in all steps with the same requests in the same rows.

    index       int64 [n], their rows in the logits; `where`: the same on the device.
    vocab_size  the number of tokens.
    contiguous  the rows as a slice, if they follow one another, else None.
    kinds       uint8 [n], the logprobs that the device writes for each, as in `LogprobsRequest`.
    top_n       int64 [n], how many likeliest tokens each lists.
    keeps       bool [n], which of them need their survivors on the host.
    edited      what the tables of edits need to know of the rows, None if they are of no use; `revision`:
                what the step makes of them, None without.
    reports     whether there are `kinds`, and `any_kept` whether there are `keeps`.
    is_own      whether all steps are this package's: those of others may depend on anything.
    routes      how the kernels take part, by whether survivors are needed; `compiled`, whether these are
                there, by the form of logits; and `recipe`, how they choose: for `Fused`.
    """

    def __init__(
        self, group: Group, members: slice, logits: Tensor, kept: Upload, choosing: bool, listing: bool
    ) -> None:
        self.group = group
        self.plan: DevicePlan = group.plan
        self.index = group.index[members]
        is_whole = len(self.index) == len(group.index)
        self.rows = group.rows if is_whole else group.rows.take(members)
        self.vocab_size = self.rows.vocabulary.size
        self.members = members
        self.masks: PieceMasks | None = None
        self.contiguous = as_slice(self.index)
        self.steps = self._inputs(self.plan, kept)
        self.edits_plan: DevicePlan | None = group.edits
        self.edits = [] if self.edits_plan is None else self._inputs(self.edits_plan, kept)
        selector = self.plan.selector if choosing else None
        self.selector = (
            None if selector is None else Inputs(selector, self.plan.chain.selector, self.rows, kept)
        )
        may_list = listing and (is_whole or self.rows.drafted is None)
        self.edited = self._listed_rows(kept) if may_list else None
        self.revision: Revision | None = None
        self.routes: dict[bool, Any] = {}
        self.compiled: dict[Any, Any] = {}
        self.recipe: Any = None
        every = self.steps if self.selector is None else [*self.steps, self.selector]
        self._asked = [inputs for inputs in every if not inputs.part.parameters_only]
        self.is_own = all(type(inputs.part).__module__.startswith(_OWN) for inputs in (*every, *self.edits))
        self._set_reports(None)
        self._device = logits.device
        self._kept = kept
        self._where = kept.add(self.index)

    def begin(
        self,
        batch: Batch,
        upload: Upload,
        revise: Callable[[GroupPiece, Upload], Revision | None] | None = None,
    ) -> None:
        """What a step needs beside what is there for all of them; `revise` tells what it makes of the tables
        of what is edited, None if it does without them."""
        self.masks, under = None, None
        if self.group.masked and batch.bitmask is not None:
            self.masks = PieceMasks(batch, self.index, self.contiguous, self._device, upload)
            under = self.rows.under(batch.bitmask[self.index if self.contiguous is None else self.contiguous])
        if batch.logprobs is not None or self.reports:
            self._set_reports(batch.logprobs)
        self.revision = None if revise is None or self.edited is None else revise(self, upload)
        for inputs in self.asked:
            inputs.begin(under, upload)

    @property
    def asked(self) -> list[Inputs]:
        """The inputs that are asked for in a step that has begun."""
        done = () if self.revision is None else self.revision.rows.names
        every = (*self._asked, *(self.edits if self.reports else ()))
        return [i for i in every if i.part.name not in done and not i.part.parameters_only]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def where(self) -> Tensor:
        return self._kept[self._where]

    def covers(self, n: int) -> bool:
        """Whether these are all of `n` rows, in order."""
        return self.contiguous == slice(0, n)

    @property
    def rows_of_logits(self) -> Tensor | slice:
        """What selects the rows from the logits."""
        return self.where if self.contiguous is None else self.contiguous

    @property
    def variant(self) -> Hashable:
        """What decides, beside the arrays that are uploaded, how the piece is worked on in a step."""
        asked = [*self._asked, *(self.edits if self.reports else ())]
        reports = (self.kinds.tobytes(), self.top_n.tobytes()) if self.reports else None
        revision = None if self.revision is None else self.revision.variant
        masks = None if self.masks is None else (self.masks.place,)
        return tuple([inputs.fixed for inputs in asked]), reports, masks, revision

    def wants(self, kind: str) -> bool:
        """Whether the device writes logprobs of this kind for any row."""
        return self.reports and bool((self.kinds & (1 << LOGPROBS_KINDS.index(kind))).any())

    @property
    def listed(self) -> int:
        """The greatest number of likeliest tokens that a row lists on the device."""
        return int(self.top_n[self.kinds != 0].max(initial=0))

    def on_host(self, some: list[int] | None = None) -> Group:
        """The same rows, or some of them, as a group for the NumPy backend."""
        group, index, rows = self.group, self.index, self.rows
        if some is not None:
            index, rows = index[some], rows.take(np.array(some))
        return Group(self.plan.chain, index, rows, group.masked, group.want_processed)

    def _listed_rows(self, kept: Upload) -> ListedRows | None:
        """What the tables of edits need to know; None if the first samplers are of other kinds."""
        lead = leading_edits(self.plan.steps)
        samplers = self.plan.chain.samplers[:lead]
        return ListedRows(self.rows, samplers, kept) if ListedRows.can_list(self.rows, samplers) else None

    def _inputs(self, plan: DevicePlan, kept: Upload) -> list[Inputs]:
        pairs = zip(plan.chain.samplers, plan.steps, strict=False)
        return [Inputs(step, sampler, self.rows, kept) for sampler, step in pairs]

    def _set_reports(self, request: LogprobsRequest | None) -> None:
        """The device writes logprobs if it chooses, and can compute all that is needed."""
        n = len(self)
        chooses = self.plan.selector is not None
        self.kinds, self.top_n = np.zeros(n, np.uint8), np.zeros(n, np.int64)
        if request is not None and chooses and (self.edits_plan is None or self.edits_plan.has_all_steps):
            top_n = request.top_n[self.index]
            listed = (top_n >= 0) & (top_n <= MOST_LISTED)
            self.kinds = np.where(listed, request.kinds[self.index], 0).astype(np.uint8)
            self.top_n = np.where(listed, top_n, 0)
        self.reports = bool(self.kinds.any())
        self.keeps = self.kinds == 0 if self.group.want_processed else np.full(n, not chooses)
        if self.group.want_survivors:
            self.keeps = np.full(n, fill_value=True)
        self.any_kept = bool(self.keeps.any()) if self.group.want_processed else not chooses


def as_slice(index: np.ndarray) -> slice | None:
    """What selects the same as `index`, int64 [n], one or more, if these follow one another; else None."""
    first = int(index[0])
    follows = bool((index == np.arange(first, first + len(index))).all())
    return slice(first, first + len(index)) if follows else None
