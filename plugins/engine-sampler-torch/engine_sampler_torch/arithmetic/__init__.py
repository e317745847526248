"""The arithmetic contract of `engine_sampler.arithmetic`, in torch: rows are batched, and every result is
equal bit for bit, on any device with int64 and float64.

Each elementwise operation rounds once, sums are of int64 only, sorts are of unique int64 keys. What torch
offers beside that is not exact everywhere, or waits for the device, and is not used here:
    x / 3.0 multiplies by a reciprocal on CUDA, as 3.0 / x does everywhere: both operands must be tensors;
    torch.where with a number copies that number to the device, and waits; `masked_fill` does not;
    torch.ldexp computes a power, and torch.sqrt does not always round correctly on a CPU (`square_root`);
    sums of floats, and their `cumsum`, have an order of the device's own (`sum_in_order`).
"""

from .integer_weights import (
    NEGATIVE_INFINITY,
    distances,
    entropy_bits,
    information,
    log2_mass,
    mass_reaching,
    mass_within,
    pick_by_weight,
    settled,
    weight_of_share,
    weights,
)
from .logprobs import columns_of, descending, first_columns, log_mass, log_total, row_logprobs, sort_keys
from .philox import scale_draw
from .probe import shortcoming
from .scalars import constant, exp2_64, log2_64, power, square_root, sum_in_order
