"""One step: what runs where, and in which order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from engine_sampler.contract import Batch, Group
from engine_sampler.for_backends import INTERRUPTIONS, HostRun, failure

from .captured import CapturedStep, Captures, Graphs, TokenRoom, kind_of
from .chain import PieceOutcome, run_piece
from .fused import Fused, compilations_for
from .masks import prepared_masks
from .pieces import GroupPiece, most_rows, pieces_of
from .plan import DevicePlan
from .results import Results
from .transfer import Buffers, Download, Upload
from .warm import WarmStep, place_of

logger = logging.getLogger("engine_sampler")


@dataclass(eq=False)
class DeviceRoom:
    """The memory of one scheduler's steps on one device."""

    upload: Buffers
    download: Buffers
    fused: Fused
    graphs: Graphs
    tokens: TokenRoom

    @classmethod
    def on(cls, device: torch.device, *, compiles_beside: bool = True) -> DeviceRoom:
        fused = Fused(device, compilations_for(device) if compiles_beside else None)
        return cls(Buffers(device), Buffers(device), fused, Graphs(device), TokenRoom(device))

    @property
    def memory(self) -> tuple[Any, ...]:
        """What the work of a step reads and writes, beside what its pieces keep and the logits."""
        return self.upload.memory, self.download.memory, self.fused.memory


@dataclass
class Prepared:
    """What is known of groups, by number, as long as the same requests are in the same rows: their pieces,
    which of them have failed on the device, and the work that has been captured."""

    room: DeviceRoom
    pieces: dict[int, list[GroupPiece]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    captures: Captures = field(default_factory=Captures)


class WarmRun:
    """A step like the one before it, that has begun."""

    def __init__(self, warm: WarmStep, name: str, prepared: Prepared, logits: Tensor, batch: Batch) -> None:
        self._warm = warm
        self._batch = batch
        self._general = name, prepared, logits, batch

    def is_done(self) -> bool:
        """Whether `finish` need not wait for the device."""
        return self._warm.captured.download.is_done

    def finish(self) -> None:
        """Wait, and fill the batch."""
        if not self._warm.finish(self._batch):
            StepRun(*self._general).go_on(self._warm)


def begun(name: str, prepared: Prepared, logits: Tensor, batch: Batch) -> WarmRun | StepRun:
    """A step of the backend `name` that has begun, by the shortest way."""
    warm: WarmStep | None = prepared.captures.warm.get(place_of(logits))
    if warm is not None and warm.begin(batch):
        return WarmRun(warm, name, prepared, logits, batch)
    step = StepRun(name, prepared, logits, batch)
    step.begin()
    return step


class StepRun:
    """The groups of one step: pieces on the device, and what the host runs instead."""

    def __init__(self, name: str, prepared: Prepared, logits: Tensor, batch: Batch) -> None:
        room = prepared.room
        self._host = HostRun(name)
        self._batch = batch
        self._logits = logits
        self._upload = Upload(room.upload)
        self._download = Download(room.download)
        self._fused = room.fused
        self._room = room
        self._is_capturing = False
        self._hosted: list[Group] = []
        self._prepared = prepared
        self._kept: Upload | None = None
        """What the pieces that are new in this step keep on the device."""

    def run(self) -> None:
        """Fill the batch."""
        self.begin()
        self.finish()

    def begin(self) -> None:
        """Queue the device's work, and the copy of its results; leave the tokens on the device."""
        self._fused.tables.give_up()
        self._fused.see(self._logits)
        masks = prepared_masks(self._batch, self._logits.device)
        if masks is not None:
            masks.ready()
        by_group = {number: self._pieces(number, group) for number, group in enumerate(self._batch.groups)}
        pieces = [(number, piece) for number, some in by_group.items() for piece in some]
        if self._kept is not None:
            self._kept.send()
            waiting = {number for number, piece in pieces if self._fused.waits(piece)}
            self._prepared.pieces.update({n: some for n, some in by_group.items() if n not in waiting})
        self._ahead = [self._upload.add(array) for array in self._batch.ahead or ()]
        if self._room.graphs.work:
            self._target = self._upload.add(self._room.tokens.next(self._logits.shape[0]))
        self._upload.pack()
        captured = self._captured(pieces)
        if captured is not None:
            self._take_over(captured)
            self._keep_warm(captured, [piece for _, piece in pieces])
            self._batch.token_ids_on_device = captured.start(self._room.tokens)
        else:
            self._batch.token_ids_on_device = self._work(pieces)
            self._download.mark()
        self._fused.tables.settle()
        if masks is not None:
            masks.release()

    def go_on(self, warm: WarmStep) -> None:
        """`finish` of a step that `warm` has begun."""
        self._take_over(warm.captured)
        self.finish()

    def _take_over(self, captured: CapturedStep) -> None:
        self._results, self._download = captured.results, captured.download

    def _keep_warm(self, captured: CapturedStep, pieces: Sequence[GroupPiece]) -> None:
        """Let the next step that is like this one take the short way."""
        kept, place = self._prepared.captures.warm, place_of(self._logits)
        if WarmStep.fits(pieces) and (place not in kept or kept[place].captured is not captured):
            room = self._room
            kept[place] = WarmStep(
                captured, pieces, self._upload, room.fused.tables, room.tokens, self._batch,
                self._target, self._ahead,
            )  # fmt: skip

    def _work(self, pieces: Sequence[tuple[int, GroupPiece]]) -> Tensor | None:
        """Queue the device's work, and both copies. Returns the tokens of all rows, as `_tokens`."""
        self._upload.copy()
        outcomes = [(piece, self._run(number, piece)) for number, piece in pieces]
        self._outcomes = outcomes
        self._results = [
            Results(piece, outcome, self._download) for piece, outcome in outcomes if outcome is not None
        ]
        tokens = self._tokens(outcomes)
        self._download.copy()
        return tokens

    def _captured(self, pieces: Sequence[tuple[int, GroupPiece]]) -> CapturedStep | None:
        """The work of this step as a graph, if there is one or it is time for one."""
        graphs, captures = self._room.graphs, self._prepared.captures
        if not graphs.work or self._hosted:
            return None
        of_step = self._logits, [piece for _, piece in pieces], self._upload, self._download
        kind = kind_of(*of_step, self._fused)
        if kind is None:
            return None
        captured = captures.of(kind)
        if captured is None and captures.is_due(kind):
            captured = self._capture(pieces)
            if captured is not None:
                captures.keep(kind, captured)
        return captured

    def _capture(self, pieces: Sequence[tuple[int, GroupPiece]]) -> CapturedStep | None:
        self._is_capturing, tokens, delivers = True, None, self._fused.work

        def work() -> None:
            nonlocal tokens
            tokens = self._work(pieces)
            if tokens is not None and delivers:
                self._fused.deliver(tokens, self._upload[self._target])

        self._fused.compile_delivery(self._logits.shape[0])
        graph = self._room.graphs.capture(work)
        self._is_capturing = False
        download, self._download = self._download, Download(self._room.download)
        if graph is None:
            return None
        verdicts = [outcome.verdicts for _, outcome in self._outcomes if outcome is not None]
        masks = [piece.masks.memory for _, piece in pieces if piece.masks is not None]
        held = (verdicts, pieces, masks, *self._room.memory)
        return CapturedStep(graph, self._results, download, tokens, held, delivers=delivers)

    def is_done(self) -> bool:
        """Whether `finish` need not wait for the device."""
        return self._download.is_done

    def finish(self) -> None:
        """Take the results, and let the host do the rest."""
        self._download.receive()
        for result in self._results:
            self._store(result)
        if self._hosted:
            self._batch.token_ids_on_device = None
            self._host.run(self._batch, self._hosted, "unsupported")
        self._host.tell()

    def _pieces(self, number: int, group: Group) -> list[GroupPiece]:
        """The pieces of a group, with the inputs of this step; none if the host runs it."""
        plan: DevicePlan = group.plan
        if not len(group.index):
            return []
        if plan.is_worthwhile(group.masked) and number not in self._prepared.failed:
            try:
                pieces = self._prepared.pieces.get(number) or self._build(
                    group, in_parts=not self._fused.work
                )
                self._begin(pieces)
                most = most_rows(self._logits, pieces[0].vocab_size)
                if len(pieces[0]) > most and not self._fused.leaves_rows(pieces[0]):
                    pieces = self._build(group, in_parts=True)
                    self._begin(pieces)
                return pieces
            except INTERRUPTIONS:
                raise
            except BaseException as error:  # of a plugin, for some row: the host finds out which
                self._note_failure(number, error)
        self._hosted.append(replace(group, plan=plan.chain))
        return []

    def _begin(self, pieces: Sequence[GroupPiece]) -> None:
        for piece in pieces:
            piece.begin(self._batch, self._upload, self._fused.revise)

    def _build(self, group: Group, *, in_parts: bool) -> list[GroupPiece]:
        if self._kept is None:
            self._kept = Upload(Buffers(self._logits.device, smallest=1))
        return pieces_of(group, self._logits, self._kept, listing=self._fused.work, in_parts=in_parts)

    def _note_failure(self, number: int, error: BaseException) -> None:
        logger.warning("%s; the host runs its requests", failure("a torch step", error))
        self._prepared.failed.add(number)
        self._prepared.captures.warm.clear()
        self._fused.tables.give_up()

    def _run(self, number: int, piece: GroupPiece) -> PieceOutcome | None:
        """What the device gives for a piece of a group; None if it fails, and the host runs it."""
        try:
            return run_piece(piece, self._logits, self._fused)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            if self._is_capturing:
                raise
            self._note_failure(number, error)
            self._hosted.append(piece.on_host())
            return None

    def _tokens(self, outcomes: Sequence[tuple[GroupPiece, PieceOutcome | None]]) -> Tensor | None:
        """The tokens of all rows, int64 [rows], −1 for rows behind wrong drafts; None if the host chooses
        any."""
        if self._hosted:
            return None
        tokens = self._drawn(outcomes)
        if tokens is None or not self._ahead:
            return tokens
        guessed, first_rows = (self._upload[number] for number in self._ahead)
        wrong = ((guessed >= 0) & (guessed != tokens.roll(1))).cumsum(0)
        return tokens.masked_fill(wrong != wrong.index_select(0, first_rows), -1)

    def _drawn(self, outcomes: Sequence[tuple[GroupPiece, PieceOutcome | None]]) -> Tensor | None:
        """The same, drafts or not."""
        n = self._logits.shape[0]
        if len(outcomes) == 1 and outcomes[0][1] is not None and outcomes[0][0].covers(n):
            return outcomes[0][1].token_ids
        tokens = torch.full((n,), -1, dtype=torch.int64, device=self._logits.device)
        for piece, outcome in outcomes:
            if outcome is None or outcome.token_ids is None:
                return None
            tokens.index_copy_(0, piece.where, outcome.token_ids)
        return tokens

    def _store(self, result: Results) -> None:
        """Keep what came back, and let the host finish the rows that it must."""
        piece = result.piece
        sound = result.store(self._batch)
        if result.unknown:
            self._hosted.append(piece.on_host(result.unknown))
        if result.survivors is None:
            return
        kept = [i for i in sound if piece.keeps[i]]
        survivors = {int(piece.index[i]): found for i, found in result.survivors.of(kept).items()}
        if piece.plan.selector is not None:
            self._batch.survivors.update(survivors)
        elif survivors:
            done = len(piece.plan.steps)
            self._host.resume(self._batch, piece.on_host(), done, survivors, "unsupported")
