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
    """The launches over `logits` of one group.

    Kernels are given what their parameters name: `_shared` has all that those of several kernels do.
    """

    def __init__(
        self,
        logits: Tensor,
        index: Tensor,
        vocab_size: int,
        shape: WorkspaceShape,
        workspace: Workspace,
        tensors: Given,
        bitmask: Tensor | None,
        edits: Edits | None,
        launch: Callable[..., Any] = launch,
        *,
        is_heated: bool,
    ) -> None:
        self._launch = launch
        rows = index.shape[0]
        self.rows, self.shape, self.edits = rows, shape, edits
        none = workspace.none
        edit_ids, edit_values = (none[torch.int64], none[torch.float32]) if edits is None else edits
        self.vector = shape.vector(logits.element_size())
        self.outcome = outcome = KernelOutcome.empty(rows, index.device)
        self.none = none[torch.int32]
        self._shared = {
            **vars(workspace),
            **{own: tensors[name] for name, (own, _) in PARAMETERS.items() if name in tensors},
            "later_scales": tensors["scale"],
            "needs": none[torch.int64],
            "logits": logits,
            "index": index,
            "bitmask": self.none if bitmask is None else bitmask,
            "edit_ids": edit_ids,
            "edit_values": edit_values,
            "peaks": outcome.peaks,
            "faults": outcome.faults,
            "tokens": outcome.token_ids,
            "row_stride": logits.stride(0),
            "mask_stride": 0 if bitmask is None else bitmask.stride(0),
            "edit_stride": 0 if edits is None else edit_ids.stride(0),
            "spans_stride": shape.tiles + 1,
            "tiles": shape.tiles,
            "vocab": shape.vocab_size,
            "groups": shape.groups,
            "TILE": shape.tile,
            "GROUP": shape.group,
            "VECTOR": self.vector,
            "TILES": bucket(shape.tiles),
            "GROUPS": max(4, bucket(shape.groups)),
            "COARSE": shape.coarse,
            "WHOLE": shape.whole,
            "CAPACITY": shape.capacity,
            "AT_ONCE": max(1, READ_AT_ONCE // shape.group),
            "MASKED": bitmask is not None,
            "EDITED": edits is not None,
            "HEATED": is_heated,
        }

    def _start(self, kernel: Any, grid: tuple[int, ...], *, warps: int, **own: Any) -> None:
        """Launch `kernel` with what its parameters name, of `own` and of what is shared; those in capitals
        are constants."""
        values = self._shared | own
        tensors = [values[name] for name in kernel.arg_names if not name.isupper()]
        constants = {name: values[name] for name in kernel.arg_names if name.isupper()}
        self._launch(kernel, grid, *tensors, warps=warps, **constants)

    def scan(self, wanted: int, *, estimated: bool = False) -> None:
        """Read every logit once."""
        tiles = self.shape.tiles
        if self.edits is not None:
            count = self.edits[0].shape[1]
            self._start(scan.count_edits, (self.rows, tiles + 1), edits=count, STEP=1024, warps=4)
        grid = (self.rows, tiles)
        self._start(scan.scan, grid, GROUPED=wanted > 0, ESTIMATED=estimated, warps=8)

    def summarize(self, needs: Tensor | None, wanted: int, *, best_only: bool = False) -> None:
        """What the scan says of each row."""
        self._start(scan.summarize, (self.rows,), **_needed(needs), need=wanted, GROUPED=wanted > 0,
                    BEST=best_only, warps=8)  # fmt: skip

    def find_candidates(self, needs: Tensor | None, wanted: int) -> None:
        """The candidates in order and by id, by one program a row."""
        self._start(together.find_candidates, (self.rows,), **_needed(needs), need=wanted, warps=8)

    def sample_within_top_k(self, plan: KernelPlan) -> None:
        """The tokens, by one program a row: its candidates and the chain on them."""
        self._start(together.sample_within_top_k, (self.rows,), need=plan.wanted, OPS=plan.operations,
                    SORTED=plan.sorted, DRAWN=plan.drawn, GREEDY=plan.greedy, warps=8)  # fmt: skip

    def gather(self) -> None:
        """The candidates, in any order."""
        step = max(1, GATHERED_AT_ONCE // self.shape.group)
        programs = min(MOST_PROGRAMS, -(-self.shape.groups // step))
        self._start(scan.gather, (self.rows, programs), programs=programs, STEP=step, warps=4)

    def sort_candidates(self, capacity: int) -> None:
        """The candidates in order, and by id."""
        grid = (self.rows, capacity // 32)
        self._start(few.sort_candidates, grid, CAPACITY=capacity, LANES=32, STEP=128, warps=8)

    def decide(self, plan: KernelPlan) -> None:
        """A draw from whole rows, where the estimates leave one token only."""
        self._start(many.decide, (self.rows,), DOUBT=self._doubt(), GREEDY=plan.greedy, warps=8)

    def chain(self, plan: KernelPlan, *, estimated: bool) -> None:
        """The chain on the candidates; `estimated`: by what the scan says that the row weighs."""
        flat, shared = plan.flat, self._shared
        unread: dict[str, Any] = dict.fromkeys(("logits", "index", "bitmask"), self.none)
        unread |= {"row_stride": 0, "mask_stride": 0}
        self._start(few.chain, (self.rows,), **({} if flat else unread), room=self.shape.aimed_at,
                    masses=shared["estimates" if estimated else "masses"],
                    OPS=plan.operations, SORTED=plan.sorted, LEADING=plan.heated, DRAWN=plan.drawn,
                    WEIGHED=plan.weighed, GREEDY=plan.greedy, ESTIMATED=estimated, FLAT=flat,
                    ALONE=plan.cuts == 1, TILE=self.shape.tile if estimated else 1,
                    DOUBT=self._doubt() if estimated else 0.0, MASKED=flat and shared["MASKED"],
                    warps=8 if flat else 4)  # fmt: skip

    def flat(self, plan: KernelPlan) -> None:
        """A top_p over rows whose candidates are too small a part."""
        shape = self.shape
        own = {"OPS": plan.operations, "LIST": shape.listed}
        chunk = min(shape.tile, SPREAD_AT_ONCE)
        self._start(flat.spread, self._shared_out(), CHUNK=chunk, **own, warps=8)
        for again, warps, listed in ((False, 16, LISTED_AT_ONCE), (True, 8, LISTED_AGAIN)):
            self._start(flat.close, (self.rows,),
                        CHUNK=min(shape.tile, SPREAD_AGAIN), ROOM=ROOM, AT_ONCE=min(shape.listed, listed),
                        DRAWN=plan.cut_last, AGAIN=again, **own, warps=warps)  # fmt: skip
        if not plan.cut_last:
            self.weigh(plan, bounded=True)
            self.draw(plan, bounded=True)

    def _shared_out(self) -> tuple[int, int]:
        """A grid of programs that share the tiles of a row: not one each, since mostly they find nothing to
        do."""
        return self.rows, min(self.shape.tiles, max(LEAST_PROGRAMS, SHARED_PROGRAMS // self.rows))

    def resolve(self, plan: KernelPlan) -> None:
        """The chain on whole rows, for those that have no token yet."""
        numbers = sum(operation << 4 * i for i, operation in enumerate(plan.operations))
        self._start(whole.resolve, (self.rows,), operations=numbers, count=len(plan.operations),
                    drawn=int(plan.drawn), SPAN=self.shape.tile, TILE=1024, warps=8)  # fmt: skip

    def recut(self) -> None:
        """The first k candidates of rows that have more than there is room for, instead of all of them."""
        self._start(whole.recut, (self.rows,), SPAN=self.shape.tile, TILE=1024, warps=8)
        self.gather()

    def emit(self, width: int) -> KernelCandidates:
        """The first k candidates by id."""
        outcome = self.outcome
        shape, device = (self.rows, width), outcome.faults.device
        ids = torch.empty(shape, dtype=torch.int64, device=device)
        values = torch.empty(shape, dtype=torch.float32, device=device)
        self._start(few.emit, (self.rows,), ids=ids, values=values, WIDTH=width, warps=4)
        return KernelCandidates(ids, values, outcome.faults, outcome.peaks)

    def weigh(self, plan: KernelPlan, *, bounded: bool = False) -> None:
        """The weight of each tile in rows without a token: of all its tokens, or of those that `flat` has
        left."""
        grid = self._shared_out() if plan.estimated else (self.rows, self.shape.tiles)
        self._start(many.weigh, grid, **_drawn_from(plan, bounded=bounded), warps=8)

    def draw(self, plan: KernelPlan, *, bounded: bool = False) -> None:
        """A draw from whole rows without a token, whose tiles are weighed."""
        self._start(many.draw, (self.rows,), **_drawn_from(plan, bounded=bounded), warps=8)

    def _doubt(self) -> float:
        return relative_doubt(self.shape.tile, self.shape.group, self.vector)


def _needed(needs: Tensor | None) -> dict[str, Any]:
    """How many candidates each row needs, if that is known."""
    return {"NEEDS": False} if needs is None else {"needs": needs, "NEEDS": True}


def _drawn_from(plan: KernelPlan, *, bounded: bool) -> dict[str, bool]:
    return {"BOUNDED": bounded, "LATER": plan.heated_later and (bounded or not plan.cuts)}


PARAMETERS = {
    "scale": ("scales", torch.float32),
    "greedy": ("greedy", torch.bool),
    "k": ("ks", torch.int64),
    "p": ("shares", torch.float64),
    "reach": ("reaches", torch.bool),
    "crossing": ("crossings", torch.bool),
    "depth": ("depths", torch.float64),
    "least": ("leasts", torch.int64),
    "draw": ("draws", torch.int64),
}
"""The inputs of the steps and of dist that kernels read, by the names that these give them: the parameters
that kernels have for them, and their types."""


def sample(
    logits: Tensor,
    index: Tensor,
    vocab_size: int,
    *,
    samplers: Sequence[str],
    selector: str,
    tensors: Mapping[str, Mapping[str, Tensor]],
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
    tensors    for each sampler, what its step's `inputs` returned, on the device.
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
    arguments = {name: workspace.none[dtype] for name, (_, dtype) in PARAMETERS.items()}
    arguments |= {name: tensor for step in samplers for name, tensor in tensors[step].items()}
    if draws is not None:
        arguments["draw"] = draws
    start = launch if replay is None else replay.launch
    launches = _Launches(logits, index, vocab_size, shape, workspace, arguments, bitmask, edits, start,
                         is_heated=plan.heated)  # fmt: skip
    if index.shape[0]:
        if plan.best_only:
            launches.scan(0)
            launches.summarize(None, 0, best_only=True)
        elif plan.wanted:
            launches.scan(plan.wanted, estimated=plan.estimated)
            if plan.closed and shape.capacity <= MOST_TOGETHER:
                launches.sample_within_top_k(plan)
            else:
                _from_candidates(launches, plan, arguments["k"])
        else:
            launches.scan(0, estimated=True)
            launches.decide(plan)
            launches.weigh(plan)
            launches.draw(plan)
    if replay is not None:
        replay.settle(launches.outcome, logits, draws, bitmask, edits)
    return launches.outcome


def _from_candidates(launches: _Launches, plan: KernelPlan, ks: Tensor) -> None:
    """The launches between the scan and the tokens, for chains whose answer may lie beyond the candidates or
    that want many."""
    needs, capacity = ks if plan.asked else None, launches.shape.capacity
    if capacity <= MOST_TOGETHER:
        launches.find_candidates(needs, plan.wanted)
    else:
        launches.summarize(needs, plan.wanted)
        launches.gather()
        launches.sort_candidates(capacity)
    launches.chain(plan, estimated=plan.weighed)
    if plan.flat:
        launches.flat(plan)
    elif plan.weighed:
        launches.weigh(plan)
        launches.chain(plan, estimated=False)
    launches.resolve(plan)


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
    given = {"scale": workspace.none[torch.float32] if scale is None else scale, "k": k}
    launches = _Launches(logits, index, vocab_size, shape, workspace, given, bitmask, edits,
                         is_heated=scale is not None)  # fmt: skip
    if len(index):
        launches.scan(width)
        launches.summarize(k, width)
        launches.gather()
        launches.recut()
        launches.sort_candidates(shape.capacity)
    return launches.emit(width)
