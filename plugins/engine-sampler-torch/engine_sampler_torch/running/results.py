"""What a step brings back to the host: tokens, notes, faults, logprobs and survivors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LN_2, Logprobs, log2_mass
from engine_sampler.contract import LOGPROBS_KINDS, Batch, NoTokenLeft

from ..arithmetic import row_logprobs
from ..steps import Block
from .chain import PieceOutcome
from .fused import UNKNOWN
from .pieces import GroupPiece
from .plan import DevicePlan
from .reading import FIRST_SAMPLER, GRAMMAR, READING
from .transfer import Download

MOST_SURVIVORS = 1024
"""This many survivors of a row come with the download of the step; rows that have more need another one."""


class Results:
    """The results of one piece: requested before the download, stored after it."""

    def __init__(self, piece: GroupPiece, outcome: PieceOutcome, download: Download) -> None:
        self.piece = piece
        self._download = download
        block = outcome.block
        self._chooses = outcome.token_ids is not None
        self._notes = _maybe(outcome.notes, download)
        self._verdicts = Verdicts(outcome.verdicts, len(piece), outcome.codes, download)
        self._alive = download.add(block.alive) if block is not None and piece.wants("processed") else None
        self._logprobs = {}
        self._likeliest = [download.add(part) for part in outcome.likeliest or ()]
        if outcome.token_ids is not None and outcome.reported:
            chosen = outcome.token_ids.clamp(min=0)
            for kind, of_kind in outcome.reported.items():
                parts = row_logprobs(of_kind.values, chosen, piece.listed, of_kind.ids)
                self._logprobs[kind] = [download.add(part) for part in parts]
        self.survivors = Survivors(block, download) if block is not None and piece.any_kept else None
        self.is_plain = self._chooses and not any(
            (
                self._notes is not None,
                self._alive is not None,
                self._likeliest,
                self._logprobs,
                self.survivors,
            )
        )
        """Whether they are verdicts alone."""
        others = self._notes is not None or self._alive is not None or self._logprobs or self.survivors
        self.lists_raw = bool(self._likeliest) and not others
        """Whether they are verdicts and what raw logprobs are made from, alone."""
        self.unknown: list[int] = []
        """The rows that have no token, and the host must find out why; known once they are stored."""

    @property
    def verdict_words(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the token ids and the faults are among the words of 8 bytes of the download, int64 [n]
        each."""
        return self._verdicts.words

    def store(self, batch: Batch) -> Sequence[int]:
        """Write everything into `batch`; returns which rows of the piece are sound."""
        self.unknown = []
        index = self.piece.index
        sound = self._sound(batch)
        if self._chooses:
            batch.token_ids[index] = self._verdicts.token_ids
        if self._notes is not None:
            batch.notes[index[sound]] = self._download[self._notes][sound]
        if self.piece.reports:
            rows = np.array(sound, np.int64)
            self._store_logprobs(batch, rows[self.piece.kinds[rows] != 0])
        return sound

    def _sound(self, batch: Batch) -> Sequence[int]:
        """Which rows of the piece have a token; what the others lack is noted."""
        if not self._verdicts.any_faults:
            return range(len(self.piece))
        sound = []
        messages = self._verdicts.messages(self.piece.plan)
        for i, (code, message) in enumerate(zip(self._verdicts.codes.tolist(), messages, strict=True)):
            if code == UNKNOWN:
                self.unknown.append(i)
            elif message is None:
                sound.append(i)
            else:
                batch.errors[self.piece.index[i]] = message
        return sound

    def _store_logprobs(self, batch: Batch, rows: np.ndarray) -> None:
        """Write those of some rows of the piece, all at once."""
        assert batch.logprobs is not None
        piece, done = self.piece, batch.logprobs.done
        done[piece.index[rows]] = True
        for number, kind in enumerate(LOGPROBS_KINDS):
            table: Logprobs | None = batch.logprobs.out[number]
            some = rows[piece.kinds[rows] >> number & 1 != 0]
            if table is None or not len(some):
                continue
            ids, logprobs, ranks = (part[some] for part in self._parts(kind))
            ends = 1 + piece.top_n[some]
            if kind == "processed" and self._alive is not None:
                ends = np.minimum(ends, 1 + self._download[self._alive][some])
            columns = np.arange(ids.shape[1])
            is_listed = columns < ends[:, None]
            where = piece.index[some]
            places = (table.starts[where, None] + columns)[is_listed]
            table.entry_token_ids[places] = ids[is_listed]
            table.entry_logprobs[places] = logprobs[is_listed]
            table.ranks[where] = ranks
            if self._likeliest:  # tokens that are removed are not found there, but listed
                done[where[((ids == piece.vocab_size) & is_listed).any(1)]] = False

    def _parts(self, kind: str) -> list[np.ndarray]:
        """Token ids, logprobs and ranks of all rows."""
        if kind != "raw" or not self._likeliest:
            return [self._download[number] for number in self._logprobs[kind]]
        ids, values, masses, ranks = (self._download[number] for number in self._likeliest)
        with np.errstate(invalid="ignore", divide="ignore"):  # of faulty rows
            return [ids, raw_logprobs(values, self._verdicts.peaks, np.maximum(masses, 1)), ranks]

    def landed_likeliest(self) -> list[np.ndarray]:
        """Where a graph leaves what raw logprobs are made from: that of `kernels.Likeliest`, and the greatest
        logits of the rows, float32 [n]."""
        return [*(self._download.view(number) for number in self._likeliest), self._verdicts.landed_peaks]


def raw_logprobs(values: np.ndarray, peaks: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """The logprobs of logits float32 [n, k], float32, of rows with these greatest logits float32 [n] and sums
    of weights int64 [n]."""
    totals = log2_mass(masses) * LN_2 + peaks  # in float64, and so is the difference
    logprobs: np.ndarray = (values - totals[:, None]).astype(np.float32)
    return logprobs


class Verdicts:
    """`PieceOutcome.verdicts` of `n` rows on the host, with the meaning of its faults."""

    def __init__(self, verdicts: Tensor, n: int, codes: np.ndarray | None, download: Download) -> None:
        self._number = download.add(verdicts)
        self._n = n
        self._codes = codes
        self._download = download

    @property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Where `token_ids` and the faults are among the words of 8 bytes of the download, int64 [n] each, if
        there are verdicts alone."""
        start, (_, room) = self._download.form_of(self._number)
        tokens = np.arange(start // 8, start // 8 + self._n)
        return tokens, tokens + room

    @property
    def token_ids(self) -> np.ndarray:
        """int64 [n], −1 for faulty rows."""
        return self._part(0)

    @property
    def any_faults(self) -> bool:
        return bool(np.count_nonzero(self._part(1)))

    @property
    def codes(self) -> np.ndarray:
        """int64 [n], 0 for sound rows."""
        faults = self._part(1)
        return faults if self._codes is None else self._codes[faults]

    @property
    def peaks(self) -> np.ndarray:
        """The logits that messages name: float32 [n]. From the kernels, the greatest of every row."""
        return self._peaks_of(self._download[self._number])

    @property
    def landed_peaks(self) -> np.ndarray:
        """The same where a graph leaves them."""
        return self._peaks_of(self._download.view(self._number))

    def _peaks_of(self, verdicts: np.ndarray) -> np.ndarray:
        peaks: np.ndarray = verdicts[2].view(np.float32)[: self._n]
        return peaks

    def messages(self, plan: DevicePlan) -> list[str | None]:
        """Why each row gave no token; None for sound rows."""
        return [
            None if code <= 0 else _message(int(code) - 1, peak, plan)
            for code, peak in zip(self.codes.tolist(), self.peaks, strict=True)
        ]

    def _part(self, number: int) -> np.ndarray:
        return self._download[self._number][number, : self._n]


def _message(code: int, peak: np.float32, plan: DevicePlan) -> str:
    step, is_great = divmod(code, 2)
    if step == READING:
        if is_great:
            return f"the row's greatest logit is {peak}; allowed is at most 2^100"
        return "every logit of the row is -inf"
    who = "the grammar" if step == GRAMMAR else plan.name_of(step - FIRST_SAMPLER)
    return f"{who} gives {peak}" if is_great else NoTokenLeft(f"{who} leaves no token")


@dataclass
class _Columns:
    """The columns that come with the download: all of a block, or the first ones of its rows in order."""

    values: int
    ids: int | None
    counts: int | None


class Survivors:
    """The survivors of a block's rows."""

    def __init__(self, block: Block, download: Download) -> None:
        self._block = block
        self._download = download
        values, ids, counts = block.values, block.ids, None
        if block.width > MOST_SURVIVORS:
            ids = block.order(MOST_SURVIVORS)[:, :MOST_SURVIVORS].sort(1).values
            values = values.gather(1, ids)
            if block.ids is not None:
                ids = block.ids.gather(1, ids)
            counts = download.add(block.alive)
        self._columns = _Columns(download.add(values), _maybe(ids, download), counts)

    def of(self, rows: list[int]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """(ids int64 [m], ascending, logits float32 [m]) of some rows, by their place in the block."""
        tokens_of = {}
        columns, download = self._columns, self._download
        whole = (
            []
            if columns.counts is None
            else [i for i in rows if download[columns.counts][i] > MOST_SURVIVORS]
        )
        for i in set(rows).difference(whole):
            ids = None if columns.ids is None else download[columns.ids][i]
            tokens_of[i] = _alive(download[columns.values][i], ids)
        if whole:
            values, ids = self._whole(whole)
            for j, i in enumerate(whole):
                tokens_of[i] = _alive(values[j], None if ids is None else ids[j])
        return tokens_of

    def _whole(self, rows: list[int]) -> tuple[np.ndarray, np.ndarray | None]:
        """Whole rows of the block, by a copy of their own."""
        block = self._block
        index = torch.tensor(rows).to(block.values.device)
        ids = None if block.ids is None else block.ids.index_select(0, index).cpu().numpy()
        return block.values.index_select(0, index).cpu().numpy(), ids


def _alive(values: np.ndarray, ids: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    columns = np.flatnonzero(values > -np.inf)
    return columns if ids is None else ids[columns], values[columns]


def _maybe(tensor: Tensor | None, download: Download) -> int | None:
    return None if tensor is None else download.add(tensor)
