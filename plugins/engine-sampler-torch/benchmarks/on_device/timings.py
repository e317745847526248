"""The table of times: our kernels by graph replay, beside what else is installed, with bars and published
figures.

Every time is a twentieth of the median over replays of a CUDA graph of twenty whole steps, by CUDA events;
what cannot be captured is started directly, and its row says so. Each step has logits of its own, and the L2
cache is filled with something else before each replay, so that every read of logits comes from memory, as
after a forward pass. Inputs are the same for all: rows whose first tokens are as likely as a language
model's, or flat ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

VOCAB_SIZE = 131_072
REPLAYS, WARM_UP, STEPS = 30, 5, 20

Step = Callable[[], Any]


@dataclass(frozen=True)
class TimedCase:
    """One line of the table.

    settings  the samplers in order, with their values.
    masked    whether a grammar's masks lie over them.
    edited    how many tokens of a row penalties, biases and bans change.
    bar       the time to reach on an H200, in µs; None: none was set.
    known     what is published about others, on other cards.
    """

    name: str
    settings: Mapping[str, float]
    rows: int = 64
    dtype: torch.dtype = torch.float32
    flat: bool = False
    masked: bool = False
    edited: int = 0
    bar: float | None = None
    known: str = ""


_DEFAULT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
_OTHERS = "FlashInfer 199, sort 1,057, Triton-Qrita 306 (B200)"

CASES = (
    TimedCase("default chain, 64 rows", _DEFAULT, bar=25, known=_OTHERS),
    TimedCase("default chain, 64 rows", _DEFAULT, dtype=torch.bfloat16, bar=20, known=_OTHERS),
    TimedCase("default chain, 1 row", _DEFAULT, rows=1, bar=12, known="FlashInfer 131 to 170 (B200)"),
    TimedCase("temperature and draw, 64 rows", {"temperature": 0.8}, bar=30),
    TimedCase("temperature and draw, 64 flat rows", {"temperature": 0.8}, flat=True),
    TimedCase("temperature and draw, 1 row", {"temperature": 0.8}, rows=1),
    TimedCase("top_p 0.95, 64 peaked rows", {"top_p": 0.95}, bar=45, known="FlashInfer 106 (B200)"),
    TimedCase("top_p 0.95, 64 flat rows", {"top_p": 0.95}, flat=True, bar=100, known="FlashInfer 106 (B200)"),
    TimedCase("top_p 0.95 and temperature, 64 flat rows", {"top_p": 0.95, "temperature": 0.8}, flat=True),
    TimedCase("top_p 0.95 and top_k 40, 64 rows", {"top_p": 0.95, "top_k": 40}),
    TimedCase("top_p 0.9, 1 flat row", {"top_p": 0.9}, rows=1, flat=True),
    TimedCase("greedy, 64 rows", {}),
    TimedCase("top_k 1024, 64 rows", {"top_k": 1024}),
    TimedCase("default chain, 256 rows", _DEFAULT, rows=256),
    TimedCase("default chain under masks, 64 rows", _DEFAULT, masked=True),
    TimedCase("default chain, 300 tokens penalised, 64 rows", _DEFAULT, edited=300),
    TimedCase("default chain, 2 tokens biased, 64 rows", _DEFAULT, edited=2),
)


def table(device: torch.device | str) -> list[dict[str, Any]]:
    """One dict for each case: case, dtype, µs, what `static_model` predicted, the µs of each peer that could
    be run, "—" for others, bar, floor, and what is published.

    `floor` is one read of the logits at the speed of a copy on this card, also measured.
    """
    place = torch.device(device)
    with torch.cuda.device(place):
        gigabytes = copy_speed(place)
        return [_line(case, place, gigabytes) for case in CASES]


def _line(case: TimedCase, device: torch.device, gigabytes: float) -> dict[str, Any]:
    buffers = ring_of(case, device)
    times = {name: _shown(steps, device) for name, steps in steps_of(case, buffers)}
    size = buffers[0].numel() * buffers[0].element_size()
    return {
        "case": case.name,
        "dtype": str(case.dtype).removeprefix("torch."),
        "ours, µs": times.get("ours", "—"),
        "predicted, µs": _predicted(case, device),
        **{f"{name}, µs": times.get(name, "—") for name in PEERS},
        "bar, µs": "" if case.bar is None else case.bar,
        "read floor, µs": round(size / gigabytes / 1e3, 1),
        "published, µs": case.known,
    }


def _predicted(case: TimedCase, device: torch.device) -> str:
    """What the static model says, of an H100 unless this is an H200; "—" for other makes than NVIDIA's."""
    from .static_model import H100, H200, predict

    if device.type != "cuda" or torch.version.hip is not None:
        return "—"
    try:
        card = H200 if "H200" in torch.cuda.get_device_name(device) else H100
        return f"{predict(case, card).microseconds:.1f}"
    except Exception as error:  # a compiler without the tools that read machine code
        return type(error).__name__


def ring_of(case: TimedCase, device: torch.device) -> list[Tensor]:
    """Logits for each of the steps that are timed together: the same rows in other places of memory."""
    first = logits_of(case, device)
    return [first, *(first.clone() for _ in range(STEPS - 1))]


def _shown(steps: list[Step], device: torch.device) -> str:
    """The time of a step in µs; why there is none, if it fails."""
    try:
        microseconds, replayed = measured(steps, device)
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
    from engine_sampler_torch.kernels.check import Golden

    return Golden(case.settings).given(case.rows, torch.device(device))


# --- steps ----------------------------------------------------------------------------------------


def steps_of(case: TimedCase, buffers: list[Tensor]) -> Iterator[tuple[str, list[Step]]]:
    """(name, functions that start one step each, over one of the buffers) of ours and of every peer that can
    be imported and samples such rows."""
    yield "ours", [ours(case, logits) for logits in buffers]
    if case.masked or case.edited:
        return  # peers change whole rows before they sample: other steps than theirs would be timed
    for name, build in PEERS.items():
        try:
            steps = [build(case, logits) for logits in buffers]
        except ImportError:
            continue
        if steps[0] is not None:
            yield name, [step for step in steps if step is not None]


def ours(case: TimedCase, logits: Tensor) -> Step:
    return start_step(case, logits, None)


def start_step(case: TimedCase, logits: Tensor, replay: Any) -> Step:
    """Our kernels' step, after one for `replay`: a `kernels.Replay` or what stands for one; None: none."""
    from engine_sampler_torch.kernels import Workspace, sample
    from engine_sampler_torch.kernels.check import Golden

    device = logits.device
    workspace = Workspace(device, case.rows, logits.shape[1])
    index = torch.arange(case.rows, device=device)
    draws = torch.arange(case.rows, device=device, dtype=torch.int64) * 0x5851F42D4C957F2D
    step_inputs = given_for(case, device)
    selector = "dist" if case.settings else "greedy"
    fixed = Golden(case.settings).fixed | {"top_k": _bucket(case)}
    bitmask, edits = _mask(case, logits), _edits(case, logits)

    def step(replay: Any = None) -> Any:
        return sample(
            logits,
            index,
            logits.shape[1],
            samplers=list(case.settings),
            selector=selector,
            tensors=step_inputs,
            fixed=fixed,
            bitmask=bitmask,
            edits=edits,
            draws=draws,
            workspace=workspace,
            replay=replay,
        )

    if replay is not None:
        step(replay)
    return step


def _mask(case: TimedCase, logits: Tensor) -> Tensor | None:
    """int32 [rows, words], every second token allowed; None for rows without masks."""
    if not case.masked:
        return None
    return torch.full(
        (case.rows, -(-logits.shape[1] // 32)), 0x55555555, dtype=torch.int32, device=logits.device
    )


def _edits(case: TimedCase, logits: Tensor) -> tuple[Tensor, Tensor] | None:
    """The ids and logits of `case.edited` tokens of each row, spread over it; None without them."""
    if not case.edited:
        return None
    count = min(case.edited, logits.shape[1])
    ids = torch.arange(count, device=logits.device) * (logits.shape[1] // count)
    values = torch.full((case.rows, count), -1.0, device=logits.device)
    return ids.expand(case.rows, -1).contiguous(), values


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


def measured(steps: list[Step], device: torch.device) -> tuple[float, bool]:
    """(median µs of one of the steps, whether they were replayed from a CUDA graph)."""
    stream: Any = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for step in steps[:3]:  # compiles, and lets libraries allocate
            step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            for step in steps:
                step()
    except RuntimeError:  # a peer that waits for the device or allocates
        torch.cuda.synchronize(device)

        def all_steps() -> None:
            for step in steps:
                step()

        return _median(all_steps, device) / len(steps), False
    return _median(graph.replay, device) / len(steps), True


def _median(start_all: Callable[[], Any], device: torch.device) -> float:
    cache = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
    other = torch.empty(2 * cache, dtype=torch.uint8, device=device)
    spans = []
    for _ in range(WARM_UP + REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        other.zero_()
        begin.record()
        start_all()
        end.record()
        spans.append((begin, end))
    torch.cuda.synchronize(device)
    return float(statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in spans[WARM_UP:]))


def copy_speed(device: torch.device) -> float:
    """GB/s that a copy of 1 GiB reads and writes."""
    source = torch.empty(1 << 28, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    microseconds, _ = measured([lambda: target.copy_(source)], device)
    return 2 * source.numel() * source.element_size() / microseconds / 1e3
