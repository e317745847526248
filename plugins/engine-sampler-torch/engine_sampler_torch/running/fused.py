"""Pieces by the Triton kernels, where they run and know the chain, with the tokens of the steps."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT

from ..arithmetic import NEGATIVE_INFINITY
from ..steps import Block
from .compiling import Compilations, Compiling
from .edits import are_few, edits_of, most_listed
from .pieces import GroupPiece, leading_edits
from .reading import GRAMMAR, READING
from .recipe import KernelSource, Recipe
from .rehearsal import Form, Rehearsal, beside
from .tables import EditTables, Revision
from .transfer import Upload

UNKNOWN = -1
"""The code of a fault whose sampler the kernels do not know: the host finds out."""


DEVICE_TYPES = ["cuda"]
"""The types of devices that Triton compiles for; ROCm's are called cuda, too."""


@functools.cache
def compilations_for(device: torch.device) -> Compilations | None:
    """Where kernels are compiled in the background; None where they are interpreted."""
    return Compilations() if device.type in COMPILED_TYPES else None


COMPILED_TYPES = ["cuda"]
"""The types of devices whose kernels are machine code."""

CHECK = "the check of the kernels"
"""What stands for it among compilations."""


@functools.cache
def kernels_for(device: torch.device) -> Any:
    """The package of kernels if they run on `device` and have passed their check there, else None."""
    if device.type not in DEVICE_TYPES:
        return None
    try:
        from .. import kernels
    except ImportError:  # no Triton here
        return None
    return kernels if kernels.trusted(str(device)) else None


@dataclass(frozen=True)
class Route:
    """How the kernels take part in a piece.

    lead       how many steps, from the first on, are edits.
    start      the number of the first step that the kernels run.
    chooses    whether they go on to the token; else they run one top_k, with a temperature before it if
               `is_heated`, and steps go on with its candidates.
    """

    lead: int
    start: int
    chooses: bool
    is_heated: bool = False

    @classmethod
    def of(cls, piece: GroupPiece, kernels: Any, keeps: bool) -> Route | None:
        """`keeps`: whether what the steps leave is needed, so that the kernels cannot choose."""
        lead, cut = leading_edits(piece.plan.steps), _first_cut(piece)
        tail = None if keeps else _tail(piece, kernels)
        if tail is not None and (cut is None or tail <= cut[0]):
            return cls(lead, tail, True)
        return None if cut is None else cls(lead, cut[0], False, cut[1])

    def is_direct(self, piece: GroupPiece) -> bool:
        """Whether the kernels read the logits, with masks and edits on the way. Else the steps before `start`
        change whole rows, and they read these."""
        if not self.may_be_direct(piece):
            return False
        return not self.lead or piece.revision is not None or are_few(piece, self.lead)

    def may_be_direct(self, piece: GroupPiece) -> bool:
        """Whether they do if few tokens are edited."""
        if self.start > self.lead or piece.wants("penalized"):
            return False
        return self.chooses or not piece.wants("raw")


class Fused:
    """The kernels' part of the pieces of one scheduler on one device, and their workspace, which grows with
    its steps."""

    def __init__(self, device: torch.device, compilations: Compilations | None) -> None:
        """`compilations`: where kernels are compiled beside the steps; None if the first step of a chain
        waits for them."""
        self._device = device
        self._name = str(device)
        self._workspace: Any = None
        self._everything = torch.empty(0, dtype=torch.int64)
        self._compilations = compilations
        self._is_checked = False
        self._form: Form | None = None
        self.tables = EditTables(device)

    @property
    def memory(self) -> tuple[Any, ...]:
        """What the kernels have to work in."""
        return self._workspace, self._everything, self.tables.memory

    @property
    def work(self) -> bool:
        """Whether there are kernels, as far as is known: they are checked beside the first steps."""
        return self._kernels() is not None

    def _kernels(self) -> Any:
        return None if self._is_checking() else kernels_for(self._device)

    def _is_checking(self) -> bool:
        """Whether a thread checks the kernels, which takes some seconds if they must be compiled."""
        if self._is_checked or self._compilations is None:
            return False
        if self._compilations.state(CHECK, self._check) is Compiling.PENDING:
            return True
        self._is_checked = True
        return False

    def _check(self) -> None:
        with beside(self._device):
            kernels = kernels_for(self._device)
            if kernels is not None:
                kernels.repeatable(self._name)

    def reads_logits(self, piece: GroupPiece) -> bool:
        """Whether the kernels read the logits, so that no step works on whole rows of a piece."""
        route = self.route(piece)
        return route is not None and route.chooses and route.is_direct(piece)

    def leaves_rows(self, piece: GroupPiece) -> bool:
        """Whether no step works on whole rows of a piece in the step that has begun, so that it needs little
        memory for a row."""
        route = self.route(piece)
        return route is not None and route.is_direct(piece)

    def revise(self, piece: GroupPiece, upload: Upload) -> Revision | None:
        """What a step makes of the tables of what a piece edits; None if they are of no use."""
        route = self.route(piece)
        if piece.edited is None or route is None or not route.may_be_direct(piece):
            return None
        revision = self.tables.begin(piece.edited, upload, most_listed(piece.vocab_size))
        if revision is None:
            piece.edited = None
        return revision

    def route(self, piece: GroupPiece) -> Route | None:
        """How the kernels take part in a piece; None if they do not."""
        kernels = self._kernels()
        if kernels is None:
            return None
        keeps = piece.any_kept or piece.wants("processed")
        if keeps not in piece.routes:
            piece.routes[keeps] = Route.of(piece, kernels, keeps)
        route: Route | None = piece.routes[keeps]
        if route is None or self._compilations is None:
            return route
        return route if self._compiled(piece, route) is Compiling.READY else None

    def see(self, logits: Tensor) -> None:
        """The logits of the step that begins, of which only the form is kept."""
        self._form = Form.of(logits)

    def waits(self, piece: GroupPiece) -> bool:
        """Whether torch runs a piece only until its kernels are checked and compiled."""
        if self._is_checking():
            return True
        keeps = piece.any_kept or piece.wants("processed")
        route = piece.routes.get(keeps)
        if route is None or self._compilations is None:
            return False
        return self._compiled(piece, route) is Compiling.PENDING

    def _compiled(self, piece: GroupPiece, route: Route) -> Compiling:
        """How far the kernels of a piece are, for logits like those of this step."""
        asked = self._form, piece.masks is not None, piece.wants("raw"), route.chooses
        known: dict[Any, Compiling] = piece.compiled
        if known.get(asked) is not Compiling.READY:
            assert self._compilations is not None
            assert self._form is not None
            rehearsal = Rehearsal(
                piece,
                self._form,
                start=route.start,
                chooses=route.chooses,
                is_heated=route.is_heated,
                is_edited=route.lead > 0,
                listed=min(piece.listed, piece.vocab_size) if piece.wants("raw") else None,
            )
            kernels = kernels_for(self._device)
            known[asked] = self._compilations.state(rehearsal.key, lambda: rehearsal.run(kernels))
        return known[asked]

    def source(self, piece: GroupPiece, logits: Tensor, route: Route) -> KernelSource:
        """The logits themselves, if the route is direct."""
        bitmask = None if piece.masks is None else piece.masks.on_device()
        edits: tuple[Tensor, Tensor] | None = None
        if piece.revision is not None:
            edits = piece.revision.run(kernels_for(self._device), logits, piece.where)
        elif route.start:
            edits = edits_of(piece, route.start, logits)
        return KernelSource(logits, piece.where, bitmask, edits)

    def source_of(self, block: Block, route: Route) -> KernelSource:
        """The rows of a block with a column for every token, after the steps before `route.start`.

        Kernels take their values for logits of a model. Rows with values that these cannot have become
        faulty, so that the host runs them.
        """
        if route.start:
            values = block.values
            beyond = ((values.abs() > float(LOGIT_LIMIT)) & (values > NEGATIVE_INFINITY)).any(1)
            block.fail(beyond, torch.full_like(block.faults, UNKNOWN), values[:, 0])
        return KernelSource(block.values.contiguous(), self._every(len(block.values)))

    def choose(self, piece: GroupPiece, route: Route, source: KernelSource) -> Any:
        """`kernels.KernelOutcome` of a piece."""
        kernels = kernels_for(self._device)
        if piece.recipe is None or not piece.recipe.lasts:
            piece.recipe = Recipe.of(piece, kernels, route.start)
        recipe: Recipe = piece.recipe
        assert piece.selector is not None
        draws = piece.selector.given.get("draws")
        workspace = self._room(kernels, len(piece), piece.vocab_size, recipe.gathered)
        replay = None
        if recipe.lasts and kernels.repeatable(self._name):
            replay = recipe.replays.of(kernels, source, workspace)
            if replay.is_complete:
                return replay.again(source.logits, draws, source.bitmask, source.edits)
        return kernels.sample(
            source.logits,
            source.where,
            piece.vocab_size,
            edits=source.edits,
            bitmask=source.bitmask,
            draws=draws,
            workspace=workspace,
            replay=replay,
            **recipe.arguments,
        )

    def narrow(self, piece: GroupPiece, route: Route, source: KernelSource) -> tuple[Block, int]:
        """(what the top_k of a piece leaves, the number of the step that follows it)."""
        kernels, size = kernels_for(self._device), piece.vocab_size
        heat, cut = piece.steps[route.start], piece.steps[route.start + route.is_heated]
        width: Any = cut.fixed
        narrowed = kernels.narrow(
            source.logits,
            source.where,
            size,
            cut.given["k"],
            width=width,
            scale=heat.given["scale"] if route.is_heated else None,
            edits=source.edits,
            bitmask=source.bitmask,
            workspace=self._room(kernels, len(piece), size, width),
        )
        return _block(narrowed, size), route.start + route.is_heated + 1

    def likeliest(self, piece: GroupPiece, logits: Tensor, drawn: Any) -> Any:
        """`kernels.Likeliest` of what raw logprobs of a piece list, beside the tokens `drawn` by
        `choose`."""
        kernels, size = kernels_for(self._device), piece.vocab_size
        k = min(piece.listed, size)
        workspace = self._room(kernels, len(piece), size, kernels.listed_width(k))
        return kernels.likeliest(logits, piece.where, size, drawn.peaks, drawn.token_ids, k, workspace)

    def deliver(self, token_ids: Tensor, target: Tensor) -> None:
        """Copy the tokens of a step to the address in `target`, int64 [1]."""
        kernels_for(self._device).deliver_tokens(token_ids, target)

    def compile_delivery(self, rows: int) -> None:
        """Compile that, which must not happen while a graph is captured."""
        if self.work:
            places = torch.empty((2, rows + rows % 2), dtype=torch.int64, device=self._device)
            self.deliver(places[0, :rows], places.new_full((1,), places[1].data_ptr()))

    def _every(self, n: int) -> Tensor:
        """0 … n − 1, the same tensor for as many rows as before."""
        if len(self._everything) != n:
            self._everything = torch.arange(n, device=self._device)
        return self._everything

    def _room(self, kernels: Any, rows: int, vocab_size: int, candidates: int) -> Any:
        kept = self._workspace
        if kept is None or kept.vocab_size != vocab_size:
            needs = kernels.bucket(rows), kernels.bucket(candidates)
        elif kept.rows < rows or kept.wanted < candidates:
            needs = (
                max(kept.rows, kernels.bucket(rows)),
                max(kept.wanted, kernels.bucket(candidates)),
            )
        else:
            return kept
        self._workspace = kernels.Workspace(self._device, needs[0], vocab_size, needs[1])
        return self._workspace


def _tail(piece: GroupPiece, kernels: Any) -> int | None:
    """The number of the step from which on the kernels know everything; None if they do not know the
    selector."""
    if piece.selector is None:
        return None
    selector, names = piece.selector.part.name, [given.part.name for given in piece.steps]
    fixed = {given.part.name: given.fixed for given in piece.steps}
    start = None
    for i in range(len(names), -1, -1):
        if not kernels.covers(names[i:], selector, fixed):
            break
        start = i
    return start


def _first_cut(piece: GroupPiece) -> tuple[int, bool] | None:
    """(the number of the first step of a top_k that the kernels know, whether it is the temperature before
    it)."""
    for i, given in enumerate(piece.steps):
        width: Any = given.fixed
        if given.part.name == "top_k" and width is not None and width < piece.vocab_size:
            before = piece.steps[i - 1] if i else given
            is_heated = before.part.name == "temperature" and before.fixed == (False, False)
            return i - is_heated, is_heated
    return None


def _block(candidates: Any, vocab_size: int) -> Block:
    """The kernels' candidates as a block; faulty rows, which have none, go on with token 0."""
    sound = torch.zeros_like(candidates.faults)
    block = Block(candidates.values, candidates.ids, vocab_size, sound, owned=True)
    faulty = candidates.faults != 0
    block.ids = candidates.ids.masked_fill(faulty[:, None] & (block.columns == 0), 0)
    block.fail(faulty, _codes(candidates.faults), candidates.peaks)
    return block


CODES = np.array([0, 2 + 2 * READING, 1 + 2 * READING, 1 + 2 * GRAMMAR, UNKNOWN])
"""The codes of the kernels' faults: none, too great, empty, the grammar's, some edit's."""


@functools.cache
def _codes_on(device: torch.device) -> Tensor:
    return torch.from_numpy(CODES).to(device)


def _codes(faults: Tensor) -> Tensor:
    """The kernels' numbers of faults as codes."""
    return _codes_on(faults.device).index_select(0, faults)
