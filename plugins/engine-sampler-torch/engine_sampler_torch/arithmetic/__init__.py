"""The arithmetic contract of `engine_sampler.arithmetic`, in torch: rows are batched, and every result is equal
bit for bit, on any device with int64 and float64.

Each elementwise operation rounds once, sums are of int64 only, sorts are of unique int64 keys. Nothing here
waits for the device.
"""

from .integer_weights import (
    NEGATIVE_INFINITY,
    distances,
    information,
    log2_mass,
    mass_reaching,
    mass_within,
    pick_by_weight,
    settled,
    weight_of_share,
    weights,
)
from .philox import scale_draw
from .ranking import descending, first_columns, sort_keys
from .scalars import exp2_64, log2_64, power

__all__ = [
    "NEGATIVE_INFINITY",
    "descending",
    "distances",
    "exp2_64",
    "first_columns",
    "information",
    "log2_64",
    "log2_mass",
    "mass_reaching",
    "mass_within",
    "pick_by_weight",
    "power",
    "scale_draw",
    "settled",
    "sort_keys",
    "weight_of_share",
    "weights",
]
