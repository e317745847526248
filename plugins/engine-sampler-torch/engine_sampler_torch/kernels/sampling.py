"""`sample` and `narrow`: the launches of one group of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import few, flat, many, scan, together, whole
from .certificate import relative_doubt
from .launching import launch
from .outcome import KernelOutcome
from .plan import KernelPlan, plan_of
from .replay import Replay
from .workspace import ROOM, Workspace, WorkspaceShape, bucket

GATHERED_AT_ONCE, MOST_PROGRAMS = 1024, 32
"""How many logits a program gathers from at once, and how many programs share a row's."""
MOST_TOGETHER, READ_AT_ONCE = 128, 2048
"""Up to how many candidates one program of a row does all of that, and how many logits it reads at once."""

LEAST_PROGRAMS, SHARED_PROGRAMS = 16, 1024
"""How many programs share a row that the exact pass may leave out, and how many there are in all."""
SPREAD_AT_ONCE, LISTED_AT_ONCE = 4096, 4096
"""How many logits, and how many tokens of a list, `flat` looks at at once."""
SPREAD_AGAIN, LISTED_AGAIN = 1024, 1024
"""The same, where one program looks at a row for a second time."""

Given = Mapping[str, Tensor]
Edits = tuple[Tensor, Tensor]
"""(token ids int64 [n, e], ascending and padded with vocab_size; their logits float32 [n, e], −inf to
remove)."""

FAULTS = {
    1: "the row's greatest logit is {peak}; allowed is at most 2^100",
    2: "every logit of the row is -inf",
    3: "the grammar leaves no token",
    4: "the edits leave no token",
}
"""What a fault's number says, as far as a kernel can tell: which edit it was must be found out elsewhere."""


@dataclass(frozen=True)
class KernelCandidates:
    """What a top_k leaves. ids int64 [n, k], ascending, padded with vocab_size; values float32 [n, k],
    padded with −inf; faults and peaks as in `KernelOutcome`. A faulty row has no candidates."""

    ids: Tensor
    values: Tensor
    faults: Tensor
    peaks: Tensor


class _Launches:
    """The launches over `logits` of one group, which share most of their arguments."""

    def __init__(
        self,
        logits: Tensor,
        index: Tensor,
        vocab_size: int,
        shape: WorkspaceShape,
        workspace: Workspace,
        scales: Tensor | None,
        bitmask: Tensor | None,
        edits: Edits | None,
        launch: Callable[..., Any] = launch,
    ) -> None:
        self._launch = launch
        rows = index.shape[0]
        self.rows, self.shape, self.workspace, self.edits = rows, shape, workspace, edits
        edit_ids, edit_values = (
            (self._none(torch.int64), self._none(torch.float32)) if edits is None else edits
        )
        self.kinds = {
            "MASKED": bitmask is not None,
            "EDITED": edits is not None,
            "HEATED": scales is not None,
        }
        self.scales = self._none(torch.float32) if scales is None else scales
        mask = self._none(torch.int32) if bitmask is None else bitmask
        self.source = (logits, index, mask, edit_ids, edit_values, workspace.spans)
        self.strides = (
            logits.stride(0),
            0 if bitmask is None else bitmask.stride(0),
            0 if edits is None else edit_ids.stride(0),
            shape.tiles + 1,
        )
        self.outcome = KernelOutcome.empty(rows, index.device)
        self.wide = (shape.tiles, shape.vocab_size)
        self.tiles_bucket = bucket(shape.tiles)
        self.vector = shape.vector(logits.element_size())
        self.doubt = relative_doubt(shape.tile, shape.group, self.vector)

    def _none(self, dtype: torch.dtype) -> Tensor:
        return self.workspace.none[dtype]

    def scan(self, wanted: int, *, estimated: bool = False) -> None:
        """Read every logit once."""
        w, shape = self.workspace, self.shape
        if self.edits is not None:
            ids = self.edits[0]
            grid = (self.rows, shape.tiles + 1)
            self._launch(scan.count_edits, grid, ids, w.spans, ids.stride(0), ids.shape[1], shape.tiles + 1,
                   TILE=shape.tile, STEP=1024, warps=4)  # fmt: skip
        self._launch(scan.scan, (self.rows, shape.tiles), *self.source, self.scales, w.highest, w.first,
                     w.alive, w.maxima, w.estimates, *self.strides, *self.wide, TILE=shape.tile,
                     GROUP=shape.group, VECTOR=self.vector, GROUPED=wanted > 0,
                     ESTIMATED=estimated, **self.kinds, warps=8)  # fmt: skip

    def begin(self, needs: Tensor | None, wanted: int, *, best_only: bool = False) -> None:
        """What the scan says of each row."""
        w, outcome = self.workspace, self.outcome
        given, constants = self._begun(needs)
        self._launch(scan.begin, (self.rows,), *given, outcome.peaks, outcome.faults, w.best, w.last,
                     w.counts, w.hot, w.hot_counts, outcome.token_ids, *self.strides, *self.wide,
                     self.shape.groups, wanted, **constants, GROUPED=wanted > 0, BEST=best_only,
                     warps=8)  # fmt: skip

    def _begun(self, needs: Tensor | None) -> tuple[list[Tensor], dict[str, Any]]:
        w, shape = self.workspace, self.shape
        given = [*self.source, self.scales, w.highest, w.first, w.alive, w.maxima]
        constants = {"TILE": shape.tile, "GROUP": shape.group, "TILES": self.tiles_bucket,
                     "GROUPS": max(4, bucket(shape.groups)), "COARSE": shape.coarse, "WHOLE": shape.whole,
                     "NEEDS": needs is not None, **self.kinds}  # fmt: skip
        return [*given, self._none(torch.int64) if needs is None else needs], constants

    def candidates(self, needs: Tensor | None, wanted: int) -> None:
        """The candidates in order and by id, by one program a row."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        given, constants = self._begun(needs)
        self._launch(together.candidates, (self.rows,), *given, outcome.peaks, outcome.faults, w.best, w.last,
                     w.counts, w.hot, w.ordered, w.by_id, outcome.token_ids, *self.strides,
                     *self.wide, shape.groups, wanted, **constants, CAPACITY=shape.capacity,
                     AT_ONCE=max(1, READ_AT_ONCE // shape.group), warps=8)  # fmt: skip

    def sampled(self, plan: KernelPlan, given: Given) -> None:
        """The tokens, by one program a row: its candidates and the chain on them."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        constants = self._begun(None)[1]
        del constants["NEEDS"]
        self._launch(together.sampled, (self.rows,), *self.source, w.highest, w.first, w.alive, w.maxima,
                     outcome.peaks, outcome.faults, w.counts, w.hot, w.ordered, w.by_id, outcome.token_ids,
                     *(given[name] for name in PARAMETERS), *self.strides, *self.wide, shape.groups,
                     plan.wanted, **constants, CAPACITY=shape.capacity,
                     AT_ONCE=max(1, READ_AT_ONCE // shape.group), OPS=plan.operations, SORTED=plan.sorted,
                     DRAWN=plan.drawn, GREEDY=plan.greedy, warps=8)  # fmt: skip

    def gather(self) -> None:
        """The candidates, in any order."""
        w, shape = self.workspace, self.shape
        step = max(1, GATHERED_AT_ONCE // shape.group)
        programs = min(MOST_PROGRAMS, -(-shape.groups // step))
        self._launch(scan.gather, (self.rows, programs), *self.source, self.scales, w.last, w.counts, w.hot,
                     w.hot_counts, w.candidates, *self.strides, *self.wide, programs, TILE=shape.tile,
                     GROUP=shape.group, STEP=step, CAPACITY=shape.capacity, **self.kinds,
                     warps=4)  # fmt: skip

    def rank(self, capacity: int) -> None:
        """The candidates in order, and by id."""
        w = self.workspace
        self._launch(few.rank, (self.rows, capacity // 32), w.candidates, w.counts, w.ordered, w.by_id,
                     CAPACITY=capacity, LANES=32, STEP=128, warps=8)  # fmt: skip

    def decide(self, plan: KernelPlan, given: Given) -> None:
        """A draw from whole rows, where the estimates leave one token only."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        self._launch(many.decide, (self.rows,), *self.source, self.scales, w.highest, w.first, w.alive,
                     w.estimates, given["greedy"], given["draw"], outcome.peaks, outcome.faults, w.best,
                     outcome.token_ids, *self.strides, *self.wide, TILE=shape.tile, GROUP=shape.group,
                     TILES=self.tiles_bucket, DOUBT=self.doubt, GREEDY=plan.greedy, **self.kinds,
                     warps=8)  # fmt: skip

    def chain(self, plan: KernelPlan, given: Given, *, estimated: bool) -> None:
        """The chain on the candidates; `estimated`: by what the scan says that the row weighs."""
        w, shape, flat = self.workspace, self.shape, plan.flat
        no = self._none(torch.int32)
        logits, index, bitmask = self.source[:3] if flat else (no, no, no)
        row_stride, mask_stride = self.strides[:2] if flat else (0, 0)
        self._launch(few.chain, (self.rows,), logits, index, bitmask, w.ordered, w.by_id, w.counts, w.last,
                     self.outcome.faults, w.first, w.estimates if estimated else w.masses, w.intervals,
                     w.bins, w.listed, self.outcome.token_ids, *(given[name] for name in PARAMETERS),
                     row_stride, mask_stride, *self.wide, shape.aimed_at,
                     CAPACITY=shape.capacity, TILES=self.tiles_bucket, OPS=plan.operations,
                     SORTED=plan.sorted, LEADING=plan.heated, DRAWN=plan.drawn, WEIGHED=plan.weighed,
                     GREEDY=plan.greedy, ESTIMATED=estimated, FLAT=flat, ALONE=plan.cuts == 1,
                     TILE=shape.tile if estimated else 1, DOUBT=self.doubt if estimated else 0.0,
                     MASKED=flat and self.kinds["MASKED"],
                     warps=8 if flat else 4)  # fmt: skip

    def flat(self, plan: KernelPlan, given: Given) -> None:
        """A top_p over rows of which the candidates are too small a part."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        values = tuple(given[name] for name in ("p", "reach", "crossing", "depth", "scale", "draw"))
        listing = w.listed, w.listing
        walk = {"TILE": shape.tile, "VECTOR": self.vector, "OPS": plan.operations, "LIST": shape.listed,
                **self.kinds}  # fmt: skip
        self._launch(flat.spread, self._shared_out(), *self.source, self.scales, w.best, w.first, w.intervals,
                     given["depth"], w.totals, w.masses, *listing, *self.strides, *self.wide,
                     CHUNK=min(shape.tile, SPREAD_AT_ONCE), **walk, warps=8)  # fmt: skip
        for again, warps, listed in ((False, 16, LISTED_AT_ONCE), (True, 8, LISTED_AGAIN)):
            self._launch(flat.close, (self.rows,), *self.source, self.scales, w.best, w.first, w.intervals,
                         w.totals, w.masses, w.bins, *listing, w.candidates, w.ordered, w.state, w.cuts,
                         w.lates, outcome.token_ids, *values, *self.strides, *self.wide,
                         TILES=self.tiles_bucket, CHUNK=min(shape.tile, SPREAD_AGAIN), ROOM=ROOM,
                         AT_ONCE=min(shape.listed, listed), DRAWN=plan.cut_last, AGAIN=again,
                         **walk, warps=warps)  # fmt: skip
        if not plan.cut_last:
            self.weigh(plan, given, bounded=True)
            self.draw(plan, given, bounded=True)

    def _shared_out(self) -> tuple[int, int]:
        """A grid of programs that share the tiles of a row: not one each, since mostly they find nothing to
        do."""
        return self.rows, min(self.shape.tiles, max(LEAST_PROGRAMS, SHARED_PROGRAMS // self.rows))

    def resolve(self, plan: KernelPlan, given: Given) -> None:
        """The chain on whole rows, for those that have no token yet."""
        numbers = sum(operation << 4 * i for i, operation in enumerate(plan.operations))
        self._launch(whole.resolve, (self.rows,), *self.source, self.outcome.faults, self.workspace.best,
                     self.outcome.token_ids, *(given[name] for name in PARAMETERS), *self.strides,
                     self.shape.vocab_size, numbers, len(plan.operations), int(plan.drawn),
                     SPAN=self.shape.tile, TILE=1024, **self.kinds, warps=8)  # fmt: skip

    def recut(self, ks: Tensor) -> None:
        """The first k candidates of rows that have more than there is room for, instead of all of them."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        self._launch(whole.recut, (self.rows,), *self.source, self.scales, outcome.faults, ks, w.last,
                     w.counts, *self.strides, shape.vocab_size, SPAN=shape.tile, TILE=1024,
                     CAPACITY=shape.capacity, **self.kinds, warps=8)  # fmt: skip
        self.gather()

    def emit(self, ks: Tensor, width: int) -> KernelCandidates:
        """The first k candidates by id."""
        w, shape, outcome = self.workspace, self.shape, self.outcome
        ids = torch.empty((self.rows, width), dtype=torch.int64, device=ks.device)
        values = torch.empty((self.rows, width), dtype=torch.float32, device=ks.device)
        self._launch(few.emit, (self.rows,), w.ordered, w.by_id, w.counts, outcome.faults, ks, ids, values,
                     shape.vocab_size, CAPACITY=shape.capacity, WIDTH=width, warps=4)  # fmt: skip
        return KernelCandidates(ids, values, outcome.faults, outcome.peaks)

    def weigh(self, plan: KernelPlan, given: Given, *, bounded: bool = False) -> None:
        """The weight of each tile in rows without a token: of all its tokens, or of those that `flat` has
        left."""
        w, constants = self.workspace, self._drawn_from(plan, bounded=bounded)
        grid = self._shared_out() if plan.estimated else (self.rows, self.shape.tiles)
        self._launch(many.weigh, grid, *self.source, self.scales, w.first, self.outcome.faults, w.best,
                     self.outcome.token_ids, w.masses, *self._bounds(given), *self.strides, *self.wide,
                     **constants, warps=8)  # fmt: skip

    def draw(self, plan: KernelPlan, given: Given, *, bounded: bool = False) -> None:
        """A draw from whole rows without a token, whose tiles are weighed."""
        w, constants = self.workspace, self._drawn_from(plan, bounded=bounded)
        self._launch(many.draw, (self.rows,), *self.source, self.scales, self.outcome.faults, w.best,
                     w.masses, given["draw"], self.outcome.token_ids, *self._bounds(given), *self.strides,
                     *self.wide, TILES=self.tiles_bucket, **constants, warps=8)  # fmt: skip

    def _bounds(self, given: Given) -> tuple[Tensor, ...]:
        w = self.workspace
        return w.state, w.cuts, w.lates, given["scale"]

    def _drawn_from(self, plan: KernelPlan, *, bounded: bool) -> dict[str, Any]:
        later = plan.heated_later and (bounded or not plan.cuts)
        return {"TILE": self.shape.tile, "BOUNDED": bounded, "LATER": later, **self.kinds}


PARAMETERS = {
    "scale": torch.float32,
    "greedy": torch.bool,
    "k": torch.int64,
    "p": torch.float64,
    "reach": torch.bool,
    "crossing": torch.bool,
    "depth": torch.float64,
    "least": torch.int64,
    "draw": torch.int64,
}
"""The inputs of the steps and of dist that kernels read, by the names that these give them, and their
types."""


def sample(
    logits: Tensor,
    index: Tensor,
    vocab_size: int,
    *,
    samplers: Sequence[str],
    selector: str,
    given: Mapping[str, Mapping[str, Tensor]],
    fixed: Mapping[str, Any],
    bitmask: Tensor | None = None,
    edits: Edits | None = None,
    draws: Tensor | None = None,
    workspace: Workspace,
    shape: WorkspaceShape | None = None,
    replay: Replay | None = None,
) -> KernelOutcome:
    """The tokens that a chain chooses in the rows `index` (int64 [n]) of `logits`.

    logits     float32, float16 or bfloat16 [rows, ≥ vocab_size], columns contiguous, rows with any stride;
    not changed.
    samplers   names that `covers` accepts, in order, without the edits that come before them.
    given      for each sampler, what its step's `inputs` returned, on the device.
    fixed      for each sampler, its step's `fixed`.
    bitmask    int32 [n, words], row i for index[i]: bit 1 = allowed.
    edits      what all edits together make of the tokens they touch. The mask rules over them.
    draws      64 random bits for each row, int64 [n]; for dist.
    workspace  of at least n rows of `vocab_size`; may be used again at once, on the same stream.
    shape      how rows are divided; for tests.
    replay     a new one, which notes what is launched.

    Waits for nothing, and launches the same kernels for the same arguments but for tensors' contents, so
    that a CUDA graph can hold it. Equals the NumPy backend token for token.
    """
    plan = plan_of(tuple(samplers), selector, tuple(fixed.items()))
    workspace.check(index.shape[0], vocab_size, plan.gathered)
    shape = shape or WorkspaceShape.of(index.shape[0], vocab_size, plan.wanted)
    arguments = {name: workspace.none[dtype] for name, dtype in PARAMETERS.items()}
    arguments |= {name: tensor for step in samplers for name, tensor in given[step].items()}
    if draws is not None:
        arguments["draw"] = draws
    scales = arguments["scale"] if plan.heated else None
    start = launch if replay is None else replay.launch
    launches = _Launches(logits, index, vocab_size, shape, workspace, scales, bitmask, edits, start)
    if index.shape[0]:
        if plan.best_only:
            launches.scan(0)
            launches.begin(None, 0, best_only=True)
        elif plan.wanted:
            launches.scan(plan.wanted, estimated=plan.estimated)
            if plan.closed and shape.capacity <= MOST_TOGETHER:
                launches.sampled(plan, arguments)
            else:
                _from_candidates(launches, plan, arguments)
        else:
            launches.scan(0, estimated=True)
            launches.decide(plan, arguments)
            launches.weigh(plan, arguments)
            launches.draw(plan, arguments)
    if replay is not None:
        replay.settle(launches.outcome, logits, draws, bitmask, edits)
    return launches.outcome


def _from_candidates(launches: _Launches, plan: KernelPlan, given: Given) -> None:
    """The launches between the scan and the tokens, for chains whose answer may lie beyond the candidates or
    that want many."""
    needs, capacity = given["k"] if plan.asked else None, launches.shape.capacity
    if capacity <= MOST_TOGETHER:
        launches.candidates(needs, plan.wanted)
    else:
        launches.begin(needs, plan.wanted)
        launches.gather()
        launches.rank(capacity)
    launches.chain(plan, given, estimated=plan.weighed)
    if plan.flat:
        launches.flat(plan, given)
    elif plan.weighed:
        launches.weigh(plan, given)
        launches.chain(plan, given, estimated=False)
    launches.resolve(plan, given)


def narrow(
    logits: Tensor,
    index: Tensor,
    vocab_size: int,
    k: Tensor,
    *,
    width: int,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
    edits: Edits | None = None,
    workspace: Workspace,
    shape: WorkspaceShape | None = None,
) -> KernelCandidates:
    """The first k tokens of each row in (logit desc, id asc) order: what a top_k leaves that comes first in
    a chain, or directly after a temperature, for samplers that the kernels do not know.

    k       int64 [n], from 1 to `width`.
    width   64, 128, …, 1024: the columns of the result.
    scale   float32 [n], a temperature's factor, which multiplies the logits first.

    All else as in `sample`.
    """
    workspace.check(index.shape[0], vocab_size, width)
    shape = shape or WorkspaceShape.of(index.shape[0], vocab_size, width)
    launches = _Launches(logits, index, vocab_size, shape, workspace, scale, bitmask, edits)
    if len(index):
        launches.scan(width)
        launches.begin(k, width)
        launches.gather()
        launches.recut(k)
        launches.rank(shape.capacity)
    return launches.emit(k, width)
