"""`SamplingData` and `SamplingParam`: the batch and its settings, checked at construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .fields import PARAMS, check_callable, check_different, check_flag, check_lengths, ids_field, token_rows

ToTensor = Callable[[np.ndarray], Any]


@dataclass(frozen=True, eq=False)
class SamplingData:
    """The tokens of a batch and the requests that its rows belong to.

    all_input_ids  token ids [rows, length], prompt and output of each row, padded; for repetition_penalty.
    output_ids     token ids [rows, length], only the output, padded; for the other two penalties.
    is_prefill     whether the first token is drawn: the requests in `request_ids` start from scratch.
    request_ids    int [rows], all different; None: the rows' requests are not cached.
    to_tensor      accepted for MindIE's callers, and stored. Sampling runs on the host, where it is not
                   needed.

    NumPy, torch and MindSpore arrays. `request_ids` are copied; the token ids are read when they are sampled
    with. `Sampler` defines what is padding. Raises `ValidationError`.
    """

    all_input_ids: Any = None
    output_ids: Any = None
    is_prefill: bool = True
    request_ids: Any = None
    to_tensor: ToTensor | None = None

    def __post_init__(self) -> None:
        check_flag("is_prefill", self.is_prefill)
        check_callable("to_tensor", self.to_tensor)
        arrays = {
            "request_ids": ids_field("request_ids").check(self.request_ids),
            "all_input_ids": token_rows("all_input_ids", self.all_input_ids),
            "output_ids": token_rows("output_ids", self.output_ids),
        }
        check_lengths(None, arrays)
        check_different("request_ids", arrays["request_ids"])
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    @classmethod
    def from_numpy(
        cls,
        all_input_ids: Any = None,
        output_ids: Any = None,
        to_tensor: ToTensor | None = None,
        is_prefill: bool = True,
        request_ids: Any = None,
    ) -> SamplingData:
        """The constructor with MindIE's order of arguments."""
        return cls(all_input_ids, output_ids, is_prefill, request_ids, to_tensor)


@dataclass(frozen=True, eq=False)
class SamplingParam:
    """The settings of a batch: for each an array [rows], or None for the neutral value in all rows.

    repetition_penalty  float above 0; 1 is neutral.
    frequency_penalty, presence_penalty  float; 0 is neutral.
    temperature         float from 0 to 10^6; 1 is neutral, 0 (below 1e-4) greedy.
    top_k               int from 0 to 2^31 − 1; 0 is off.
    top_p               float from 0 to 1; 1 is neutral.
    seed                int from 0 to 2^63 − 1, or −1 for a row without one; None: no row has one. A row
                        without a seed that samples gets a random one. In the mode "documented" a seed makes
                        its row sample, so greedy rows of a batch with seeds need −1.
    do_sample           bool; None: see `Sampler`.
    to_tensor           as in `SamplingData`.

    Floats are rounded to float32, as in MindIE. Raises `ValidationError`.
    """

    repetition_penalty: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    temperature: Any = None
    top_k: Any = None
    top_p: Any = None
    seed: Any = None
    do_sample: Any = None
    to_tensor: ToTensor | None = None

    def __post_init__(self) -> None:
        check_callable("to_tensor", self.to_tensor)
        arrays = {name: field.check(getattr(self, name)) for name, field in PARAMS.items()}
        check_lengths(None, arrays)
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    def equals(self, other: SamplingParam | None) -> bool:
        """Whether `other` has the same settings."""
        if other is None:
            return False
        return other is self or all(_same(getattr(self, name), getattr(other, name)) for name in PARAMS)

    @classmethod
    def from_numpy(
        cls,
        repetition_penalty: Any = None,
        frequency_penalty: Any = None,
        presence_penalty: Any = None,
        temperature: Any = None,
        top_k: Any = None,
        top_p: Any = None,
        seed: Any = None,
        do_sample: Any = None,
        to_tensor: ToTensor | None = None,
    ) -> SamplingParam:
        """The constructor under MindIE's name."""
        return cls(
            repetition_penalty, frequency_penalty, presence_penalty, temperature, top_k, top_p, seed,
            do_sample, to_tensor,
        )  # fmt: skip


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and bool((one == other).all())
