"""`warm_up`: compile the kernels of chains before a request needs them. As a command:

python -m engine_sampler_torch.warming 131072 --order top_k,top_p,min_p,temperature --dtype bfloat16
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence

import torch

MOST_IN_SMALL_TILES, LEAST_IN_LARGE_ONES = 1, 9
"""How many rows stand for all batches that are divided as theirs: up to eight are cut finer."""

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DEFAULT_ORDER = ("top_k", "top_p", "min_p", "temperature")


def warm_up(
    orders: Sequence[Sequence[str]],
    dtypes: Sequence[torch.dtype],
    rows: Sequence[int],
    *,
    vocab_size: int,
    device: torch.device | str = "cuda",
    top_k: int = 40,
    masks: bool = True,
    edits: bool = True,
) -> int:
    """Check the kernels, and compile those that draw from such rows, by one step of each over rows of zeros;
    afterwards no request waits for the compiler. Triton keeps what it compiles in the folder
    `TRITON_CACHE_DIR`, by default `~/.triton/cache`, so that a later process reads it there.

    orders      the samplers of each chain that come after its edits, in order: temperature, top_k, top_p and
                min_p, each at most once. An empty one draws from whole rows.
    dtypes      of the logits: torch.float32, torch.float16, torch.bfloat16.
    rows        how many rows batches have: all up to 8 share their kernels, and so do all above.
    vocab_size  the columns of the logits, as the scheduler has them.
    device      where the logits will be.
    top_k       the greatest that requests will have; above 64, 128, 256, 512 and 1,024 kernels differ.
    masks, edits  whether steps will have grammar masks, and penalties, biases or bans: then the kernels are
                compiled with and without them.

    Returns how many steps were tried. Raises ValueError for a chain, a dtype or a number that is not allowed,
    and RuntimeError where they do not run at all (no Triton, no card, or not equal to the host).
    """
    from .running.fused import CHECK, compilations_for, kernels_for

    for name, least in (("vocab_size", vocab_size), ("top_k", top_k), ("rows", min(rows, default=1))):
        if least < 1:
            raise ValueError(f"{name} is {least}; allowed is 1 or more")
    for dtype in dtypes:
        if dtype not in DTYPES.values():
            raise ValueError(f"dtypes has {dtype}; allowed are {', '.join(map(str, DTYPES.values()))}")
    place = torch.device(device)
    if place.type == "cuda" and place.index is None and torch.cuda.is_available():
        place = torch.device("cuda", torch.cuda.current_device())
    kernels = kernels_for(place)
    if kernels is None:
        raise RuntimeError(f"no kernels run on {place}: there is nothing to compile")
    compilations = compilations_for(place)
    if compilations is not None:
        compilations.note(CHECK)
    from .kernels.check import Golden

    settings = {"temperature": 0.8, "top_k": top_k, "top_p": 0.95, "min_p": 0.05}
    for order in orders:
        if not set(order) <= set(settings) or not kernels.covers(order, "dist", Golden({}).fixed):
            raise ValueError(
                f"orders has {list(order)}; allowed are temperature, top_k, top_p, min_p, each at most once"
            )
    sizes = {LEAST_IN_LARGE_ONES if n > 8 else MOST_IN_SMALL_TILES for n in rows}
    with_masks, with_edits = ((False, True) if asked else (False,) for asked in (masks, edits))
    steps = list(itertools.product(orders, dtypes, sorted(sizes), with_masks, with_edits))
    for order, dtype, n, masked, edited in steps:
        golden = Golden({name: settings[name] for name in order})
        fixed = golden.fixed | {"top_k": _bucket(top_k)}
        ids = torch.zeros((n, 1), dtype=torch.int64, device=place)
        words = torch.full((n, -(-vocab_size // 32)), -1, dtype=torch.int32, device=place)
        kernels.sample(
            torch.zeros((n, vocab_size), dtype=dtype, device=place),
            torch.arange(n, device=place),
            vocab_size,
            samplers=list(order),
            selector="dist",
            tensors=golden.given(n, place),
            fixed=fixed,
            bitmask=words if masked else None,
            edits=(ids, torch.zeros((n, 1), device=place)) if edited else None,
            draws=torch.zeros(n, dtype=torch.int64, device=place),
            workspace=kernels.Workspace(place, n, vocab_size),
        )
    return len(steps)


def _bucket(top_k: int) -> int | None:
    """As many candidates as a step of top_k asks for."""
    return None if top_k > 1024 else max(64, 1 << (top_k - 1).bit_length())


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, and say what was tried; 1 if no kernels run here."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_sampler_torch.warming", description="Compile the kernels of chains."
    )
    parser.add_argument("vocab_size", type=int)
    parser.add_argument(
        "--order", action="append", help=f"samplers, with commas (default {','.join(DEFAULT_ORDER)})"
    )
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="of the logits (default bfloat16)")
    parser.add_argument("--rows", action="append", type=int, help="batch sizes (default 1 and 64)")
    parser.add_argument("--top-k", type=int, default=40, help="the greatest of any request (%(default)s)")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    orders = [tuple(filter(None, text.split(","))) for text in options.order or [",".join(DEFAULT_ORDER)]]
    dtypes = [DTYPES[name] for name in options.dtype or ["bfloat16"]]
    try:
        tried = warm_up(
            orders,
            dtypes,
            options.rows or [1, 64],
            vocab_size=options.vocab_size,
            device=options.device,
            top_k=options.top_k,
        )
    except (RuntimeError, ValueError) as error:
        print(error)
        return 1
    print(f"compiled the kernels of {tried} kinds of steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
