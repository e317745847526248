"""`SamplingMetadata` and `SamplingOutput`: a batch with its settings, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...arithmetic import GREEDY_BELOW, Logprobs, child_seed
from ...contract import bitmask_words
from ...scheduler import StepResult
from .._tensors import like
from .errors import InconsistencyError, UnsupportedTypeError, ValidationError
from .fields import (
    NO_SEED,
    PARAMS,
    Field,
    check_callable,
    check_different,
    check_flag,
    check_lengths,
    check_unmasked,
    host_array,
    ids_field,
    token_rows,
)
from .inputs import ToTensor

NO_LOGPROB = -9999.0
"""The value in place of a missing logprob."""

_BEST_OF = Field("best_of", "int", 1, low=1, high=8192)
_TOP_LOGPROBS = Field("top_logprobs", "int", 0, low=0, high=20)
_CUMULATIVE = Field("cumulative_logprobs", "float", 0.0)
_SEEDS = Field("seeds", "int", None, low=NO_SEED, high=2**63 - 1)
_PREFILL = Field("is_seq_prefill", "bool", None)
_BEAMS = Field("use_beam_search", "bool", False)


@dataclass(frozen=True)
class Expansion:
    """The rows of a batch, including a row for the first token of each of the `best_of` siblings.

    sources       int64 [rows], the row of the logits that each row uses: `repeating_indices`.
    sequence_ids  the sequence of each row.
    siblings      for each row its number among its siblings; 0 for the first and for rows without siblings.
    groups        (start, end) for each group.
    """

    sources: np.ndarray
    sequence_ids: list[int]
    siblings: list[int]
    groups: list[tuple[int, int]]


@dataclass(eq=False)
class SamplingMetadata:
    """A batch of groups of sequences, one row of logits per sequence; built by `from_numpy`.

    Settings are read-only arrays with one value per row. `all_token_ids` and `output_token_ids` (int
    [rows, length], padded) are set by `update_token_ids`. `guided_bitmask` (int32 [rows,
    ceil(vocab / 32)], bit 1 = allowed) is set as an attribute. Every call reads the current values.
    """

    batch_sequence_ids: list[np.ndarray]
    reserved_sequence_ids: list[np.ndarray]
    all_sequence_ids: np.ndarray
    group_indices: list[tuple[int, int]]
    prefill_array: np.ndarray
    """bool [rows], whether a row draws its sequence's first token."""
    repetition_penalty: np.ndarray | None
    frequency_penalty: np.ndarray | None
    presence_penalty: np.ndarray | None
    temperature: np.ndarray | None
    top_k_array: np.ndarray | None
    top_p_array: np.ndarray | None
    do_sample_array: np.ndarray | None
    seed_array: np.ndarray | None
    top_logprobs_array: np.ndarray
    best_of_array: np.ndarray
    cumulative_logprobs: np.ndarray
    to_tensor: ToTensor | None = None
    all_token_ids: Any = None
    output_token_ids: Any = None
    guided_bitmask: Any = None

    @classmethod
    def from_numpy(
        cls,
        batch_sequence_ids: Sequence[Any],
        reserved_sequence_ids: Sequence[Any] | None = None,
        is_prefill: bool = True,
        repetition_penalty: Any = None,
        frequency_penalty: Any = None,
        presence_penalty: Any = None,
        temperature: Any = None,
        top_k: Any = None,
        top_p: Any = None,
        do_sample: Any = None,
        top_logprobs: Any = None,
        seeds: Any = None,
        num_top_tokens: Any = None,
        n: Any = None,
        best_of: Any = None,
        use_beam_search: Any = None,
        output_lengths: Any = None,
        cumulative_logprobs: Any = None,
        to_tensor: ToTensor | None = None,
        all_sequence_ids: Any = None,
        is_seq_prefill: Any = None,
        is_mix: bool = False,
        cache_ids: Any = None,
        random_number_generators: Any = None,
    ) -> SamplingMetadata:
        """Metadata from arrays, each with one value per row, or one per group for all of its rows.

        batch_sequence_ids     int arrays, one per group: the sequences of the rows.
        reserved_sequence_ids  int arrays, one per group: the ids for the siblings of best_of.
        repetition_penalty to do_sample, seeds  as in `SamplingParam`; a sequence's seed takes effect
                               when the sequence begins. do_sample=False stays greedy; without do_sample
                               the rows with a temperature, top_k or top_p sample, and sequences that have
                               sampled go on: with their temperature, top_k and top_p if all are omitted.
        top_logprobs           0 to 20: the number of likeliest tokens to list.
        best_of                1 to 8192: this many siblings begin with the row of a group that has one
                               sequence; they sample. In a later call, rows above 1 sample.
        cumulative_logprobs    the sequences' sums so far.
        all_sequence_ids       the ids in `batch_sequence_ids`, in one array.
        is_seq_prefill         bool per row, for a mixed batch; otherwise `is_prefill` applies to all rows.

        num_top_tokens, n, output_lengths, is_mix, cache_ids and random_number_generators are accepted
        for MindIE's callers, and have no effect: they serve beam search and MindIE's memory.
        Beam search is refused: `Scheduler.add_group` supports it. Raises `ValidationError`.
        """
        check_flag("is_prefill", is_prefill)
        check_callable("to_tensor", to_tensor)
        groups = _groups("batch_sequence_ids", batch_sequence_ids)
        reserved = [_ids("reserved_sequence_ids", ())] * len(groups)
        if reserved_sequence_ids is not None:
            reserved = _groups("reserved_sequence_ids", reserved_sequence_ids) or reserved
        if len(reserved) != len(groups):
            raise InconsistencyError(f"reserved_sequence_ids has {len(reserved)} groups of {len(groups)}")
        if not all(len(ids) for ids in groups) or not groups:
            raise InconsistencyError("batch_sequence_ids has a group without sequences, or no group")
        sizes = np.array([len(ids) for ids in groups])
        ends = np.cumsum(sizes)
        sequences = np.concatenate(groups)
        check_different("batch_sequence_ids", sequences)
        if (
            all_sequence_ids is not None
            and _ids("all_sequence_ids", all_sequence_ids).tolist() != sequences.tolist()
        ):
            raise InconsistencyError(f"all_sequence_ids differ from batch_sequence_ids, {sequences.tolist()}")

        def column(field: Field, values: Any) -> np.ndarray | None:
            checked = field.check(values)
            if checked is not None and len(checked) == len(groups):
                checked = np.repeat(checked, sizes)
            check_lengths(len(sequences), {field.name: checked}, "the batch")
            return checked

        def filled(field: Field, values: Any, default: Any) -> np.ndarray:
            checked = column(field, values)
            return np.full(len(sequences), default, field.dtype) if checked is None else checked

        if filled(_BEAMS, use_beam_search, False).any():
            raise ValidationError("use_beam_search=True is not allowed here: Scheduler.add_group supports it")
        metadata = cls(
            groups,
            reserved,
            sequences,
            list(zip((ends - sizes).tolist(), ends.tolist(), strict=True)),
            filled(_PREFILL, is_seq_prefill, is_prefill),
            column(PARAMS["repetition_penalty"], repetition_penalty),
            column(PARAMS["frequency_penalty"], frequency_penalty),
            column(PARAMS["presence_penalty"], presence_penalty),
            column(PARAMS["temperature"], temperature),
            column(PARAMS["top_k"], top_k),
            column(PARAMS["top_p"], top_p),
            column(PARAMS["do_sample"], do_sample),
            column(_SEEDS, seeds),
            filled(_TOP_LOGPROBS, top_logprobs, 0),
            filled(_BEST_OF, best_of, 1),
            filled(_CUMULATIVE, cumulative_logprobs, 0.0),
            to_tensor,
        )
        metadata._check_siblings()
        return metadata

    def update_token_ids(self, all_token_ids: Any, output_token_ids: Any) -> None:
        """Set the tokens of the rows, int [rows, length], padded; None leaves the current ones unchanged.

        Raises `ValidationError` before either changes.
        """
        arrays = {
            "all_token_ids": token_rows("all_token_ids", all_token_ids),
            "output_token_ids": token_rows("output_token_ids", output_token_ids),
        }
        check_lengths(len(self.all_sequence_ids), arrays, "the batch")
        for name, array in arrays.items():
            if array is not None:
                setattr(self, name, array)

    def columns(self) -> dict[str, np.ndarray | None]:
        """The settings under the names in `SamplingParam`."""
        return {
            "repetition_penalty": self.repetition_penalty,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "temperature": self.temperature,
            "top_k": self.top_k_array,
            "top_p": self.top_p_array,
            "seed": self.seed_array,
            "do_sample": self.do_sample_array,
        }

    @property
    def siblings(self) -> np.ndarray:
        """int64 [rows], the number of siblings that begin with each row."""
        return np.where(self.prefill_array, self.best_of_array, 1)

    def expansion(self) -> Expansion:
        """The rows together with those of the siblings that begin."""
        counts = self.siblings
        ids: list[int] = []
        groups = []
        for (start, end), reserved in zip(self.group_indices, self.reserved_sequence_ids, strict=True):
            first = len(ids)
            ids += self.all_sequence_ids[start:end].tolist() + reserved[: counts[start] - 1].tolist()
            groups.append((first, len(ids)))
        siblings = [number for count in counts.tolist() for number in range(count)]
        return Expansion(np.repeat(np.arange(len(counts)), counts), ids, siblings, groups)

    def mask(self, vocab_size: int) -> np.ndarray | None:
        """The checked `guided_bitmask`."""
        if self.guided_bitmask is None:
            return None
        mask = host_array("guided_bitmask", self.guided_bitmask, "i", "int32")
        shape = (len(self.all_sequence_ids), bitmask_words(vocab_size))
        if mask.dtype != np.int32:
            raise UnsupportedTypeError(f"guided_bitmask has dtype {mask.dtype}, allowed is int32")
        if mask.shape != shape:
            raise InconsistencyError(f"guided_bitmask has shape {mask.shape}, allowed is {shape}")
        return mask

    def _check_siblings(self) -> None:
        counts = self.siblings
        for group, (start, end) in enumerate(self.group_indices):
            count, reserved = int(counts[start:end].max()), len(self.reserved_sequence_ids[group])
            requirement = ""
            if count > 1 and end - start > 1:
                requirement = "a group of one sequence"
            elif count > 1 and self.temperature is not None and self.temperature[start] < GREEDY_BELOW:
                requirement = "a temperature above 0"
            elif count - 1 > reserved:
                requirement = f"{count - 1} reserved_sequence_ids, there are {reserved}"
            if requirement:
                raise InconsistencyError(f"best_of={count} in row {start} needs {requirement}")
        check_different(
            "batch_sequence_ids and reserved_sequence_ids", np.array(self.expansion().sequence_ids)
        )


@dataclass(eq=False)
class SamplingOutput:
    """The results of a `SamplingMetadata` batch: arrays with one entry per row, siblings included.

    NumPy arrays; with `return_tensors` of `Sampler`, token ids and logprobs are of the logits' library, on
    its device.

    sequence_ids         int64, the sequences of the tokens.
    parent_sequence_ids  int64, the sequences whose caches they continue.
    group_indices        (start, end) for each group.
    repeating_indices    int64, the row of the logits that each row uses.
    token_ids            int64, −1 for a faulty row.
    logprobs             float32: for a sampled token the natural logarithm after all processing; for a
                         greedy one after penalties, if top_logprobs are requested; otherwise −9999.
    top_token_ids        int64 [rows, k], the likeliest first, k the greatest requested number; −1 for none.
    top_logprobs         float32 [rows, k], −9999 for none.
    cumulative_logprobs  float32, the given sums plus `logprobs`, where they exist.
    num_new_tokens       int64, 1, or 0 for a faulty row.
    num_top_tokens       int64, the number that each row requested.
    seeds                uint64, the seeds of the draws; those of siblings are below 2^63.
    is_structured_accepted  bool, whether a token allowed by `guided_bitmask` was found; None without one.
    """

    sequence_ids: np.ndarray
    parent_sequence_ids: np.ndarray
    group_indices: list[tuple[int, int]]
    repeating_indices: np.ndarray
    token_ids: Any
    logprobs: Any
    top_token_ids: Any
    top_logprobs: Any
    cumulative_logprobs: Any
    num_new_tokens: np.ndarray
    num_top_tokens: np.ndarray
    seeds: np.ndarray
    is_structured_accepted: np.ndarray | None = None

    @classmethod
    def of(cls, metadata: SamplingMetadata, expansion: Expansion, result: StepResult) -> SamplingOutput:
        """The output of a step with the rows of `expansion`."""
        sources, tokens = expansion.sources, result.token_ids
        requested = metadata.top_logprobs_array[sources]
        ids = np.full((len(tokens), 1 + int(requested.max())), -1, np.int64)
        values = np.full(ids.shape, NO_LOGPROB, np.float32)
        if isinstance(result.logprobs, Logprobs):
            width = result.logprobs.token_ids.shape[1]
            listed = np.isfinite(result.logprobs.logprobs)
            ids[:, :width][listed] = result.logprobs.token_ids[listed]
            values[:, :width][listed] = result.logprobs.logprobs[listed]
        beyond = np.arange(ids.shape[1]) > requested[:, None]
        ids[beyond], values[beyond] = -1, NO_LOGPROB
        logprobs = values[:, 0].copy()
        increments = np.where(logprobs == NO_LOGPROB, np.float32(0), logprobs)
        return cls(
            np.array(expansion.sequence_ids, np.int64),
            metadata.all_sequence_ids[sources],
            expansion.groups,
            sources,
            tokens,
            logprobs,
            ids[:, 1:].copy(),
            values[:, 1:].copy(),
            metadata.cumulative_logprobs[sources] + increments,
            (tokens >= 0).astype(np.int64),
            requested,
            np.array(result.seeds, np.uint64),
            None if metadata.guided_bitmask is None else tokens >= 0,
        )

    def moved_to(self, logits: Any) -> SamplingOutput:
        """The same with token ids and logprobs as arrays of the library of `logits`, on its device."""
        ids, values = ("token_ids", "top_token_ids"), ("logprobs", "top_logprobs", "cumulative_logprobs")
        moved = {name: like(logits, getattr(self, name), "int64") for name in ids}
        moved |= {name: like(logits, getattr(self, name), "float32") for name in values}
        return replace(self, **moved)

    def to_deprecated(self) -> tuple[Any, Any]:
        """(token_ids, logprobs)."""
        return self.token_ids, self.logprobs


def sibling_seed(seed: int, number: int) -> int:
    """The seed of sibling `number`: `seed` itself for 0, for others 63 bits of the library's child seed,
    so that this interface accepts it as a seed."""
    return child_seed(seed, number) % 2**63


def _groups(name: str, values: Any) -> list[np.ndarray]:
    """The ids of each group."""
    check_unmasked(name, values)
    try:
        groups = list(values)
    except TypeError as error:
        raise UnsupportedTypeError(
            f"{name}={values!r} is not allowed: a list with an array of ids per group"
        ) from error
    return [_ids(name, ids) for ids in groups]


def _ids(name: str, values: Any) -> np.ndarray:
    array = host_array(name, values, "iu", "int")
    if not array.size:
        return np.zeros(0, np.int64)
    checked = ids_field(name).check(array)
    assert checked is not None
    return checked
