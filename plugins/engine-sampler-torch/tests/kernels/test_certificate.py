"""What the scan estimates bounds the weights of the contract, and decides only what is beyond doubt."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from engine_sampler_torch.kernels import Workspace, WorkspaceShape
from engine_sampler_torch.kernels.aim import NO_PART
from engine_sampler_torch.kernels.certificate import bounds_of, relative_doubt
from engine_sampler_torch.kernels.launching import listening
from kernel_cases import Case, chain_of, expected, rows_of
from kernel_driver import run

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import distances, weights

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZE, SEED = 5000, 11
SHAPE = WorkspaceShape.of(1, SIZE, 0)
DOUBT = relative_doubt(SHAPE.tile, SHAPE.group, SHAPE.vector(4))


@triton.jit
def tell_bounds(estimates, first, least, most, tiles, TILES: tl.constexpr, TILE: tl.constexpr,
                DOUBT: tl.constexpr):  # fmt: skip
    """The bounds of the tiles of one row."""
    places = tl.arange(0, TILES)
    inside = places < tiles
    shares = tl.load(estimates + places, mask=inside, other=0.0)
    firsts = tl.load(first + places, mask=inside, other=0x7FFFFFFFFFFFFFFF)
    order = ~(tl.min(firsts, 0) >> 32).to(tl.int32)
    peak = (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    low, high = bounds_of(shares, firsts, peak, TILE, DOUBT)
    tl.store(least + places, low, mask=inside)
    tl.store(most + places, high, mask=inside)


def bounds(workspace: Workspace, doubt: float = DOUBT) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) of each tile of the row that was drawn from."""
    low, high = torch.zeros(2, SHAPE.tiles, dtype=torch.int64)
    tell_bounds[(1,)](workspace.estimates, workspace.first, low, high, SHAPE.tiles,
                      TILES=1 << (SHAPE.tiles - 1).bit_length(), TILE=SHAPE.tile, DOUBT=doubt)  # fmt: skip
    return low.numpy(), high.numpy()


def exact(row: np.ndarray, temperature: float) -> np.ndarray:
    """The weight of each token."""
    heated = row * np.float32(1.0 / temperature)
    return weights(distances(heated[None]))[0].astype(np.int64)


def by_tile(w: np.ndarray) -> np.ndarray:
    return np.pad(w, (0, SHAPE.tiles * SHAPE.tile - SIZE)).reshape(SHAPE.tiles, -1).sum(1)


def one_row(row: np.ndarray, names: list[str], **settings: float) -> Case:
    chain = chain_of(names, "dist")
    params = SamplingParams(**settings)
    return Case(chain, rows_of([params], chain, SIZE, [SEED]), torch.from_numpy(row[None].copy()))


RANDOM = np.random.default_rng(7)


def peaked() -> np.ndarray:
    """Four tokens that share the mass, each in a tile of its own, over a body 20 to 40 below them."""
    row = RANDOM.uniform(10, 30, SIZE).astype(np.float32)
    row[100::1200][:4] = 50.0, 49.0, 48.0, 47.5
    return row


ROWS: dict[str, Callable[[], np.ndarray]] = {
    "nearly equal": lambda: RANDOM.normal(0, 0.1, SIZE),
    "flat": lambda: RANDOM.normal(0, 2, SIZE),
    "steep": lambda: RANDOM.normal(0, 8, SIZE),
    "far from zero": lambda: RANDOM.normal(-3000, 3, SIZE),
    "ties": lambda: np.round(RANDOM.normal(0, 3, SIZE)),
    "equal": lambda: np.full(SIZE, 2.5),
    "peaked": peaked,
    "tokens that weigh about half a unit": lambda: np.where(
        np.arange(SIZE) == 9, 0, RANDOM.uniform(-21.6, -21.3, SIZE)
    ),
    "mostly removed": lambda: np.where(RANDOM.random(SIZE) < 0.999, -np.inf, RANDOM.normal(0, 1, SIZE)),
    "a tile that weighs nothing": lambda: np.r_[np.full(1024, -1e30), RANDOM.normal(0, 1, SIZE - 1024)],
}


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1e-3, 1e6])
@pytest.mark.parametrize("kind", ROWS)
def test_the_weight_of_every_tile_lies_within_its_bounds(kind: str, temperature: float) -> None:
    row = ROWS[kind]().astype(np.float32)
    names = [] if temperature == 1 else ["temperature"]
    settings = {} if temperature == 1 else {"temperature": temperature}
    workspace = Workspace("cpu", 1, SIZE)
    case = one_row(row, names, **settings)
    outcome = run(case.chain, case.rows, case.logits, workspace=workspace)
    np.testing.assert_array_equal(outcome.token_ids.numpy(), expected(case)[0])
    masses = by_tile(exact(row, temperature))
    least, most = bounds(workspace)
    assert (least <= masses).all()
    assert (masses <= most).all()
    assert ((most - least) <= 2.1 * DOUBT * masses + SHAPE.tile + 2).all()


def test_bounds_that_are_too_narrow_do_not_hold() -> None:
    row = ROWS["nearly equal"]().astype(np.float32)
    workspace = Workspace("cpu", 1, SIZE)
    case = one_row(row, [])
    run(case.chain, case.rows, case.logits, workspace=workspace)
    masses = by_tile(exact(row, 1.0))
    least, most = bounds(workspace, doubt=0.0)
    assert (masses < least).any() or (most < masses).any()


def test_the_doubt_is_below_what_the_documentation_says() -> None:
    for size, rows in ((32_000, 64), (131_072, 64), (131_072, 1), (262_144, 256)):
        for wanted, size_of_logit in ((0, 4), (64, 4), (0, 2), (64, 2)):
            shape = WorkspaceShape.of(rows, size, wanted)
            assert relative_doubt(shape.tile, shape.group, shape.vector(size_of_logit)) < 2.5e-5


# --- what is decided ------------------------------------------------------------------------------


def watched(case: Case, kernel: str, argument: str, draw: int | None = None) -> tuple[int, float]:
    """(the token of the row, what the tensor `argument` held before `kernel` was launched)."""
    seen: list[float] = []

    def listen(launched: Any, grid: Any, arguments: Any, *rest: Any) -> None:
        if launched.fn.__name__ == kernel:
            seen.append(arguments[launched.arg_names.index(argument)][0].item())

    bits = None if draw is None else np.array([draw], np.uint64)
    with listening(listen):
        token = int(run(case.chain, case.rows, case.logits, draws=bits).token_ids[0])
    return token, seen[0]


def bits_for(target: int, total: int) -> int:
    """The least 64 bits r of which (r·S) >> 64 is the target."""
    return -(-(target << 64) // total)


@pytest.mark.parametrize("temperature", [1.0, 0.8])
@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_a_draw_next_to_a_boundary_is_left_to_the_exact_pass(boundary: int, temperature: float) -> None:
    row = peaked()
    w = exact(row, temperature)
    upto, total = np.cumsum(w), int(w.sum())
    edge = int(upto[100 + 1200 * boundary])
    names = [] if temperature == 1 else ["temperature"]
    case = one_row(row, names, **({} if temperature == 1 else {"temperature": temperature}))
    widest = int(2 * DOUBT * total) + SIZE
    for distance in (-4 * widest, -widest // 64, -1, 0, 1, widest // 64, 4 * widest):
        target = edge + distance
        token, decided = watched(case, "weigh", "tokens", bits_for(target, total))
        assert token == int(np.searchsorted(upto, target, side="right"))
        assert decided in (-1, token)
        if abs(distance) <= 1:
            assert decided == -1
        if np.abs(upto - target).min() > widest:
            assert decided == token


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_cut_next_to_a_boundary_is_left_to_the_exact_pass(cut: int) -> None:
    row = peaked()
    w = exact(row, 1.0)
    heads = np.sort(w)[::-1].cumsum()
    share = Fraction(int(heads[cut - 1]), int(w.sum()))
    for distance in (-1e-3, -1e-7, 0.0, 1e-7, 1e-3):
        p = float(share) + distance
        case = one_row(row, ["top_p"], top_p=p)
        token, nearer = watched(case, "spread", "intervals")
        assert token == expected(case)[0][0]
        assert (nearer == NO_PART.value) == (abs(distance) > 1e-4)
