"""The table of times: our kernels by graph replay, beside what else is installed, with bars and published
figures.

Every time is the median over replays of a CUDA graph of one whole step, by CUDA events; what cannot be
captured is started directly, and its row says so. Inputs are the same for all: rows whose first tokens are
as likely as a language model's, or flat ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

VOCAB_SIZE = 131_072
REPLAYS, WARM_UP = 200, 20

Step = Callable[[], Any]


@dataclass(frozen=True)
class TimedCase:
    """One line of the table.

    settings  the samplers in order, with their values.
    bar       the time to reach on an H200, in µs; None: none was set.
    known     what is published about others, on other cards.
    """

    name: str
    settings: Mapping[str, float]
    rows: int = 64
    dtype: torch.dtype = torch.float32
    flat: bool = False
    bar: float | None = None
    known: str = ""


_DEFAULT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
_OTHERS = "FlashInfer 199, sort 1,057, Triton-Qrita 306 (B200)"

CASES = (
    TimedCase("default chain, 64 rows", _DEFAULT, bar=25, known=_OTHERS),
    TimedCase("default chain, 64 rows", _DEFAULT, dtype=torch.bfloat16, bar=20, known=_OTHERS),
    TimedCase("default chain, 1 row", _DEFAULT, rows=1, bar=12, known="FlashInfer 131 to 170 (B200)"),
    TimedCase("temperature and draw, 64 rows", {"temperature": 0.8}, bar=30),
    TimedCase("top_p 0.95, 64 peaked rows", {"top_p": 0.95}, bar=45, known="FlashInfer 106 (B200)"),
    TimedCase("top_p 0.95, 64 flat rows", {"top_p": 0.95}, flat=True, bar=100, known="FlashInfer 106 (B200)"),
    TimedCase("greedy, 64 rows", {}),
    TimedCase("top_k 1024, 64 rows", {"top_k": 1024}),
)


def table(device: torch.device | str) -> list[dict[str, Any]]:
    """One dict for each case: case, dtype, µs, bar, floor, and the µs of each peer that could be run, "—"
    for others.

    `floor` is one read of the logits at the speed of a copy on this card, also measured.
    """
    place = torch.device(device)
    with torch.cuda.device(place):
        gigabytes = copy_speed(place)
        return [_line(case, place, gigabytes) for case in CASES]


def _line(case: TimedCase, device: torch.device, gigabytes: float) -> dict[str, Any]:
    logits = logits_of(case, device)
    times = {name: _shown(step, device) for name, step in steps_of(case, logits)}
    size = logits.numel() * logits.element_size()
    return {
        "case": case.name,
        "dtype": str(case.dtype).removeprefix("torch."),
        **{f"{name}, µs": times.get(name, "—") for name in ("ours", *PEERS)},
        "bar, µs": "" if case.bar is None else case.bar,
        "read floor, µs": round(size / gigabytes / 1e3, 1),
        "published, µs": case.known,
    }


def _shown(step: Step, device: torch.device) -> str:
    """The time of a step in µs; why there is none, if it fails."""
    try:
        microseconds, replayed = measured(step, device)
    except Exception as error:
        torch.cuda.synchronize(device)
        return f"{type(error).__name__}"
    return f"{microseconds:.1f}" if replayed else f"{microseconds:.1f} without a graph"


# --- inputs ---------------------------------------------------------------------------------------


def logits_of(case: TimedCase, device: torch.device | str, vocab_size: int = VOCAB_SIZE) -> Tensor:
    """[rows, vocab_size] of the case's type: a body of N(0, 2.2); in peaked rows also a head of 300 tokens
    that fall from 22 above it, so that 0.95 of the probability lies in a few dozen of them."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(case.rows, vocab_size, generator=generator) * 2.2
    if not case.flat:
        heads = torch.rand(case.rows, vocab_size, generator=generator).argsort(1)[:, : min(300, vocab_size)]
        fall = 22.0 - 1.6 * torch.arange(1, heads.shape[1] + 1, dtype=torch.float32).log2()
        logits.scatter_(1, heads, fall.expand(case.rows, -1).contiguous())
    return logits.to(device=device, dtype=case.dtype)


def given_for(case: TimedCase, device: torch.device | str) -> dict[str, dict[str, Tensor]]:
    """What the steps of the case's samplers would give the kernels."""
    from ..kernels.check import Golden

    return Golden(case.settings).given(case.rows, torch.device(device))


# --- steps ----------------------------------------------------------------------------------------


def steps_of(case: TimedCase, logits: Tensor) -> Iterator[tuple[str, Step]]:
    """(name, a function that starts one step) of ours and of every peer that can be imported."""
    yield "ours", ours(case, logits)
    for name, build in PEERS.items():
        try:
            step = build(case, logits)
        except ImportError:
            continue
        if step is not None:
            yield name, step


def ours(case: TimedCase, logits: Tensor) -> Step:
    from ..kernels import Workspace, sample
    from ..kernels.check import Golden

    device = logits.device
    workspace = Workspace(device, case.rows, logits.shape[1])
    index = torch.arange(case.rows, device=device)
    draws = torch.arange(case.rows, device=device, dtype=torch.int64) * 0x5851F42D4C957F2D
    step_inputs = given_for(case, device)
    selector = "dist" if case.settings else "greedy"
    fixed = Golden(case.settings).fixed | {"top_k": _bucket(case)}

    def step() -> Any:
        return sample(
            logits,
            index,
            logits.shape[1],
            samplers=list(case.settings),
            selector=selector,
            given=step_inputs,
            fixed=fixed,
            draws=draws,
            workspace=workspace,
        )

    return step


def _bucket(case: TimedCase) -> int:
    return max(64, 1 << (int(case.settings.get("top_k", 1)) - 1).bit_length())


def _sorted(case: TimedCase, logits: Tensor) -> Step | None:
    """One sort of the row, masks, softmax and multinomial, as engines in plain torch do it."""
    s = case.settings
    if not s:
        return lambda: logits.argmax(1)

    def step() -> Tensor:
        values, order = logits.float().sort(1, descending=True)
        values = values / s.get("temperature", 1.0)
        if "top_k" in s:
            values[:, int(s["top_k"]) :] = float("-inf")
        if "top_p" in s:
            share = values.softmax(1)
            values = values.masked_fill(share.cumsum(1) - share >= s["top_p"], float("-inf"))
        if "min_p" in s:
            share = values.softmax(1)
            values = values.masked_fill(share < s["min_p"] * share[:, :1], float("-inf"))
        return order.gather(1, torch.multinomial(values.softmax(1), 1))

    return step


def _topk(case: TimedCase, logits: Tensor) -> Step | None:
    """torch.topk, then the rest on its k columns; only where a top_k leads."""
    s = case.settings
    if "top_k" not in s:
        return None

    def step() -> Tensor:
        values, order = logits.topk(int(s["top_k"]), 1)
        values = values.float() / s.get("temperature", 1.0)
        share = values.softmax(1)
        keep = share.cumsum(1) - share < s.get("top_p", 1.0)
        keep &= share >= s.get("min_p", 0.0) * share[:, :1]
        return order.gather(1, torch.multinomial(share * keep, 1))

    return step


def _flashinfer(case: TimedCase, logits: Tensor) -> Step | None:
    import flashinfer.sampling as peer

    s = case.settings
    if not s:
        return None
    k, p = int(s.get("top_k", logits.shape[1])), float(s.get("top_p", 1.0))

    def step() -> Any:
        share = peer.softmax(logits.float(), temperature=s.get("temperature", 1.0))
        if "top_k" in s:
            return peer.top_k_top_p_sampling_from_probs(share, k, p)
        if "top_p" in s:
            return peer.top_p_sampling_from_probs(share, p)
        return peer.sampling_from_probs(share)

    return step


def _vllm(case: TimedCase, logits: Tensor) -> Step | None:
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

    s = case.settings
    if not s:
        return None
    sampler = TopKTopPSampler()
    k = torch.full((case.rows,), int(s["top_k"]), device=logits.device) if "top_k" in s else None
    p = torch.full((case.rows,), float(s["top_p"]), device=logits.device) if "top_p" in s else None
    return lambda: sampler(logits.float() / s.get("temperature", 1.0), {}, k, p)


PEERS: Mapping[str, Callable[[TimedCase, Tensor], Step | None]] = {
    "torch sort": _sorted,
    "torch.topk": _topk,
    "FlashInfer": _flashinfer,
    "vLLM": _vllm,
}
"""Others' ways to the same kind of token; none is exact, and min_p is left out where a peer has none."""


# --- the clock ------------------------------------------------------------------------------------


def measured(step: Step, device: torch.device) -> tuple[float, bool]:
    """(median µs of one step, whether it was replayed from a CUDA graph)."""
    stream: Any = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles, and lets libraries allocate
            step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            step()
    except RuntimeError:  # a peer that waits for the device or allocates
        torch.cuda.synchronize(device)
        return _median(step), False
    return _median(graph.replay), True


def _median(step: Step) -> float:
    for _ in range(WARM_UP):
        step()
    spans = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPLAYS)
    ]
    for start, end in spans:
        start.record()
        step()
        end.record()
    torch.cuda.synchronize()
    return float(statistics.median(start.elapsed_time(end) * 1e3 for start, end in spans))


def copy_speed(device: torch.device) -> float:
    """GB/s that a copy of 1 GiB reads and writes."""
    source = torch.empty(1 << 28, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    microseconds, _ = measured(lambda: target.copy_(source), device)
    return 2 * source.numel() * source.element_size() / microseconds / 1e3
