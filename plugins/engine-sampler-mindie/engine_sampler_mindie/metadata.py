"""`SamplingMetadata`: a batch of groups of sequences with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine_sampler.arithmetic import GREEDY_BELOW, child_seed
from engine_sampler.contract import bitmask_words
from engine_sampler.for_bridges import with_attributes

from .fields import (
    NO_SEED,
    PARAMS,
    Field,
    InconsistencyError,
    UnsupportedTypeError,
    batch_columns,
    check_callable,
    check_different,
    check_flag,
    check_lengths,
    for_each_row,
    frozen,
    host_array,
    ids_field,
    ids_in,
    ids_of_groups,
    row_values,
    spans_of,
    token_rows,
)
from .inputs import SamplingData, SamplingParam, ToTensor

_BEST_OF = Field("best_of", "int", 1, low=1, high=8192)
_WIDTH = Field("n", "int", 1, low=1, high=8192)
_TOP_LOGPROBS = Field("top_logprobs", "int", 0, low=0, high=20)
_TOP_TOKENS = Field("num_top_tokens", "int", 0, low=0)
_CUMULATIVE = Field("cumulative_logprobs", "float", 0.0)
_LENGTHS = Field("output_lengths", "int", 0, low=0)
_SEEDS = Field("seeds", "int", None, low=NO_SEED, high=2**63 - 1)
_PREFILL, _BEAMS = Field("is_seq_prefill", "bool", None), Field("use_beam_search", "bool", False)

_COLUMNS = {name: name for name in PARAMS} | {
    name: f"{name}_array" for name in ("top_k", "top_p", "seed", "do_sample")
}
"""The names of settings in `SamplingParam`, and the attributes of a `SamplingMetadata` that hold them."""

_OF_ROWS = (
    "repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k_array",
    "top_p_array", "do_sample_array", "seed_array", "top_logprobs_array", "num_top_tokens", "best_of_array",
    "use_beam_search_array", "beam_width_array", "cumulative_logprobs", "output_lengths", "cache_ids",
    "all_token_ids", "output_token_ids", "guided_bitmask", "prompt_lengths",
)  # fmt: skip
"""The arrays of a `SamplingMetadata` that have an entry for each row."""


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
    """A batch of groups of sequences, one row of logits per sequence; built by `from_numpy`, or by
    `from_batch` from what MindIE's generator has.

    Settings are read-only arrays with one value per row. `all_token_ids` and `output_token_ids` (int
    [rows, length], padded) are set by `update_token_ids`. `guided_bitmask` (int32 [rows,
    ceil(vocab / 32)], bit 1 = allowed) is set as an attribute. Every call reads the current values.
    """

    batch_sequence_ids: list[np.ndarray]
    reserved_sequence_ids: list[np.ndarray]
    is_prefill: bool
    """Whether the first tokens of the sequences are drawn, unless `is_seq_prefill` says it row by row."""
    is_mix: bool
    all_sequence_ids: np.ndarray
    parent_sequence_ids: np.ndarray
    """int64 [rows], the sequences whose caches the rows use: `all_sequence_ids`."""
    group_indices: list[tuple[int, int]]
    to_tensor: ToTensor | None
    repetition_penalty: np.ndarray | None
    frequency_penalty: np.ndarray | None
    presence_penalty: np.ndarray | None
    temperature: np.ndarray | None
    top_k_array: np.ndarray | None
    top_p_array: np.ndarray | None
    do_sample_array: np.ndarray | None
    seed_array: np.ndarray | None
    top_logprobs_array: np.ndarray
    num_top_tokens: np.ndarray
    """int64 [rows], what `SamplingOutput.num_top_tokens` says."""
    best_of_array: np.ndarray | None
    """None unless a row has more than one sibling."""
    use_beam_search_array: np.ndarray | None
    """None unless a row belongs to a beam search."""
    beam_width_array: np.ndarray
    cumulative_logprobs: np.ndarray
    output_lengths: np.ndarray | None
    """int64 [rows], how many tokens the sequences of a beam search have."""
    is_seq_prefill: Any = None
    """bool [rows] or [groups]; None: `is_prefill` applies to all."""
    cache_ids: np.ndarray | None = None
    random_number_generators: Any = None
    all_token_ids: Any = None
    output_token_ids: Any = None
    guided_bitmask: Any = None
    prompt_lengths: np.ndarray | None = None
    """int64 [rows], how many of `all_token_ids` are prompt, if `from_batch` was told it."""
    known_lengths: np.ndarray | None = None
    """int64 [rows], how many of `output_token_ids` are output: `output_lengths` as of the last
    `update_beam_search`, None once `update_token_ids` has changed the tokens."""

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
        is_mix: bool | None = False,
        cache_ids: Any = None,
        random_number_generators: Any = None,
    ) -> SamplingMetadata:
        """Metadata from arrays, each with one value per row, or one per group for all of its rows.

        batch_sequence_ids     int arrays, one per group: the sequences of the rows.
        reserved_sequence_ids  int arrays, one per group: the ids for the siblings of best_of, and for the
                               beams that begin.
        repetition_penalty to do_sample, seeds  as in `SamplingParam`; a sequence's seed takes effect
                               when the sequence begins. do_sample=False stays greedy; without do_sample
                               the rows with a temperature, top_k or top_p sample, and sequences that have
                               sampled go on: with their temperature, top_k and top_p if all are omitted.
        top_logprobs           0 to 20: the number of likeliest tokens to list.
        num_top_tokens         what the output says of their number; None: top_logprobs.
        best_of                1 to 8192: this many siblings begin with the row of a group that has one
                               sequence; they sample. In a later call, rows above 1 sample.
        use_beam_search        whether the rows of a group are the texts of one beam search: then best_of,
                               do_sample, temperature, top_k and top_p have no effect on them.
        n                      1 to 8192: how many texts a beam search continues.
        cumulative_logprobs    the sequences' sums so far.
        output_lengths         how many tokens the sequences of a beam search have so far; None: 0.
        all_sequence_ids       the ids in `batch_sequence_ids`, in one array.
        is_seq_prefill         bool per row, for a mixed batch; otherwise `is_prefill` applies to all rows.

        is_mix, cache_ids and random_number_generators are stored for MindIE's callers, and have no effect.
        Raises `ValidationError`.
        """
        check_flag("is_prefill", is_prefill)
        check_flag("is_mix", bool(is_mix) if is_mix is None else is_mix)
        check_callable("to_tensor", to_tensor)
        groups = ids_of_groups("batch_sequence_ids", batch_sequence_ids)
        reserved = [ids_in("reserved_sequence_ids", ())] * len(groups)
        if reserved_sequence_ids is not None:
            reserved = ids_of_groups("reserved_sequence_ids", reserved_sequence_ids) or reserved
        if len(reserved) != len(groups):
            raise InconsistencyError(f"reserved_sequence_ids has {len(reserved)} groups of {len(groups)}")
        if not all(len(ids) for ids in groups) or not groups:
            raise InconsistencyError("batch_sequence_ids has a group without sequences, or no group")
        sizes = [len(ids) for ids in groups]
        sequences = frozen(np.concatenate(groups))
        check_different("batch_sequence_ids", sequences)
        if (
            all_sequence_ids is not None
            and ids_in("all_sequence_ids", all_sequence_ids).tolist() != sequences.tolist()
        ):
            raise InconsistencyError(f"all_sequence_ids differ from batch_sequence_ids, {sequences.tolist()}")

        def column(field: Field, values: Any) -> np.ndarray | None:
            return row_values(field, values, sizes)

        def filled(field: Field, values: Any, default: Any) -> np.ndarray:
            checked = column(field, values)
            return frozen(np.full(len(sequences), default, field.dtype)) if checked is None else checked

        best_of_array = filled(_BEST_OF, best_of, 1)
        beams = filled(_BEAMS, use_beam_search, False)
        top = filled(_TOP_LOGPROBS, top_logprobs, 0)
        metadata = cls(
            batch_sequence_ids=groups,
            reserved_sequence_ids=reserved,
            is_prefill=is_prefill,
            is_mix=bool(is_mix),
            all_sequence_ids=sequences,
            parent_sequence_ids=sequences,
            group_indices=spans_of(sizes),
            to_tensor=to_tensor,
            repetition_penalty=column(PARAMS["repetition_penalty"], repetition_penalty),
            frequency_penalty=column(PARAMS["frequency_penalty"], frequency_penalty),
            presence_penalty=column(PARAMS["presence_penalty"], presence_penalty),
            temperature=column(PARAMS["temperature"], temperature),
            top_k_array=column(PARAMS["top_k"], top_k),
            top_p_array=column(PARAMS["top_p"], top_p),
            do_sample_array=column(PARAMS["do_sample"], do_sample),
            seed_array=column(_SEEDS, seeds),
            top_logprobs_array=top,
            num_top_tokens=top if num_top_tokens is None else filled(_TOP_TOKENS, num_top_tokens, 0),
            best_of_array=best_of_array if (best_of_array > 1).any() else None,
            use_beam_search_array=beams if beams.any() else None,
            beam_width_array=filled(_WIDTH, n, 1),
            cumulative_logprobs=filled(_CUMULATIVE, cumulative_logprobs, 0.0),
            output_lengths=column(_LENGTHS, output_lengths),
            is_seq_prefill=column(_PREFILL, is_seq_prefill),
            cache_ids=column(ids_field("cache_ids"), cache_ids),
            random_number_generators=random_number_generators,
        )
        metadata._check_groups()
        return metadata

    @classmethod
    def from_batch(
        cls,
        input_metadata: Any,
        batch_sampling_params: np.ndarray,
        num_top_tokens: Any,
        to_tensor: ToTensor | None,
        **kwargs: Any,
    ) -> SamplingMetadata:
        """Metadata from what MindIE's generator has of a batch.

        input_metadata         with batch_sequence_ids, reserved_sequence_ids, is_prefill and, if it knows
                               them, all_sequence_ids and the lengths of the prompts: batch_seq_len, or of
                               prompts in parts split_end_position.
        batch_sampling_params  a record array of floats, with repetition_penalty, frequency_penalty,
                               presence_penalty, temperature, top_k, top_p, do_sample and top_logprobs.
        kwargs                 batch_seeds, batch_best_of, batch_n, batch_use_beam_search,
                               batch_output_lengths, batch_cumulative_logprobs, is_seq_prefill, is_mix,
                               cache_ids and random_number_generators, None for what is not given; None in
                               an array of seeds is a row without one.

        The rest is as in `from_numpy`, and so are the errors.
        """
        names = ("batch_sequence_ids", "reserved_sequence_ids", "is_prefill")
        with_attributes(names, "input_metadata", input_metadata, f"an object with {', '.join(names)}")
        metadata = cls.from_numpy(
            batch_sequence_ids=input_metadata.batch_sequence_ids,
            reserved_sequence_ids=input_metadata.reserved_sequence_ids,
            is_prefill=input_metadata.is_prefill,
            all_sequence_ids=getattr(input_metadata, "all_sequence_ids", None),
            num_top_tokens=num_top_tokens,
            to_tensor=to_tensor,
            **batch_columns(batch_sampling_params, kwargs),
        )
        metadata.prompt_lengths = _prompt_lengths(metadata, input_metadata)
        return metadata

    @classmethod
    def from_deprecated(cls, sampling_data: SamplingData, sampling_param: SamplingParam) -> SamplingMetadata:
        """Metadata from the older pair. Without `request_ids`, the sequences are 0, 1, 2, …"""
        given = (getattr(sampling_param, name) for name in PARAMS)
        arrays = (sampling_data.request_ids, sampling_data.all_input_ids, sampling_data.output_ids, *given)
        rows = next((len(array) for array in arrays if array is not None), 0)
        ids = np.arange(rows) if sampling_data.request_ids is None else sampling_data.request_ids
        metadata = cls.from_numpy(
            list(ids[:, None]),
            is_prefill=sampling_data.is_prefill,
            to_tensor=sampling_data.to_tensor,
            **{"seeds" if name == "seed" else name: getattr(sampling_param, name) for name in PARAMS},
        )
        metadata.update_token_ids(sampling_data.all_input_ids, sampling_data.output_ids)
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
                self.known_lengths = None

    def update_beam_search(self, cumulative_logprobs: Any, output_lengths: Any) -> None:
        """Set the sums of the sequences' logprobs, float [rows], and how many tokens they have, int [rows].

        These lengths also say where the output ends in the rows of `output_token_ids`, whatever pads them.
        Raises `ValidationError` before either changes.
        """
        ones = [1] * len(self.all_sequence_ids)
        sums = row_values(_CUMULATIVE, cumulative_logprobs, ones)
        lengths = row_values(_LENGTHS, output_lengths, ones)
        if lengths is not None and self.output_token_ids is not None:
            longest, width = int(lengths.max()), self.output_token_ids.shape[1]
            if longest > width:
                raise InconsistencyError(
                    f"output_lengths={longest} is not allowed: output_token_ids are {width} long"
                )
        if sums is not None:
            self.cumulative_logprobs = sums
        if lengths is not None:
            self.output_lengths = self.known_lengths = lengths

    def columns(self) -> dict[str, np.ndarray | None]:
        """The settings under the names in `SamplingParam`."""
        return {name: getattr(self, attribute) for name, attribute in _COLUMNS.items()}

    @property
    def prefill_array(self) -> np.ndarray:
        """bool [rows], whether a row draws its sequence's first token."""
        rows = len(self.all_sequence_ids)
        if self.is_seq_prefill is None:
            return np.full(rows, self.is_prefill)
        given = host_array("is_seq_prefill", self.is_seq_prefill, "biu", "bool").astype(np.bool_)
        return for_each_row(_PREFILL, given, [end - start for start, end in self.group_indices])

    @property
    def has_siblings(self) -> np.ndarray:
        """bool [rows], whether a row belongs to one of several texts by `best_of`."""
        none = np.zeros(len(self.all_sequence_ids), np.bool_)
        return none if self.best_of_array is None else self.best_of_array > 1

    @property
    def siblings(self) -> np.ndarray:
        """int64 [rows], the number of siblings that begin with each row."""
        if self.best_of_array is None:
            return np.ones(len(self.all_sequence_ids), np.int64)
        begins = self.prefill_array
        if self.use_beam_search_array is not None:
            begins = begins & ~self.use_beam_search_array
        return np.where(begins, self.best_of_array, 1)

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
        return Expansion(
            sources=np.repeat(np.arange(len(counts)), counts),
            sequence_ids=ids,
            siblings=siblings,
            groups=groups,
        )

    def beam_groups(self) -> list[int]:
        """The numbers of the groups that are beam searches."""
        beams = self.use_beam_search_array
        if beams is None:
            return []
        return [number for number, (start, _) in enumerate(self.group_indices) if beams[start]]

    def part(self, groups: Sequence[int]) -> tuple[SamplingMetadata, np.ndarray]:
        """The metadata of the groups with these numbers, and the numbers of their rows, int64 [rows]."""
        spans = [self.group_indices[number] for number in groups]
        rows = np.concatenate([np.arange(start, end) for start, end in spans])
        arrays = {name: getattr(self, name) for name in _OF_ROWS}
        sequences = self.all_sequence_ids[rows]
        part = replace(
            self,
            batch_sequence_ids=[self.batch_sequence_ids[number] for number in groups],
            reserved_sequence_ids=[self.reserved_sequence_ids[number] for number in groups],
            group_indices=spans_of(end - start for start, end in spans),
            all_sequence_ids=sequences,
            parent_sequence_ids=sequences,
            is_seq_prefill=self.prefill_array[rows],
            known_lengths=None if self.known_lengths is None else self.known_lengths[rows],
            **{name: array[rows] for name, array in arrays.items() if array is not None},
        )
        return part, rows

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

    def _check_groups(self) -> None:
        """Raise unless siblings and beams can begin where they are to begin."""
        siblings, prefill, beams = self.siblings, self.prefill_array, self.use_beam_search_array
        for group, (start, end) in enumerate(self.group_indices):
            searches = beams is not None and bool(beams[start])
            if beams is not None and (beams[start:end] != searches).any():
                raise InconsistencyError(f"use_beam_search differs within the group of row {start}")
            count, name = int(siblings[start:end].max()), "best_of"
            if searches and prefill[start]:
                count, name = int(self.beam_width_array[start]), "use_beam_search and n"
            reserved = len(self.reserved_sequence_ids[group])
            requirement = ""
            if count > 1 and end - start > 1:
                requirement = "a group of one sequence"
            elif count > 1 and not searches and self._is_cold(start):
                requirement = "a temperature above 0"
            elif count - 1 > reserved:
                requirement = f"{count - 1} reserved_sequence_ids, there are {reserved}"
            if requirement:
                raise InconsistencyError(f"{name}={count} in row {start} needs {requirement}")
        check_different(
            "batch_sequence_ids and reserved_sequence_ids", np.array(self.expansion().sequence_ids)
        )

    def _is_cold(self, row: int) -> bool:
        return self.temperature is not None and bool(self.temperature[row] < GREEDY_BELOW)


def sibling_seed(seed: int, number: int) -> int:
    """The seed of sibling `number`: `seed` itself for 0, for others 63 bits of the library's child seed,
    so that this interface accepts it as a seed."""
    return child_seed(seed, number) % 2**63


def _prompt_lengths(metadata: SamplingMetadata, input_metadata: Any) -> np.ndarray | None:
    """int64 [rows], how long the prompts of a batch are whose first tokens are drawn; None if unknown."""
    if not metadata.is_prefill:
        return None
    sizes = [end - start for start, end in metadata.group_indices]
    for name in ("split_end_position", "batch_seq_len"):
        lengths = getattr(input_metadata, name, None)
        if lengths is not None and np.size(lengths) == len(sizes):
            return row_values(Field(name, "int", 0, low=0), lengths, sizes)
    return None
