"""What the calling `generate` of transformers knows, and does not pass on to what it calls."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

from engine_sampler.for_bridges import Peer

PEER = Peer("transformers", "engine-sampler-transformers")

_NAMES = ("streamer", "assistant_model", "synced_gpus")


def arguments_of_generate() -> dict[str, Any]:
    """streamer, assistant_model and synced_gpus of the `generate` that runs on this stack; {} without one.

    transformers accepts them together with a function as `custom_generate`, uses them in part (the prompt is
    streamed) and drops them, so they are read from its frame: otherwise they would have no effect, without a
    word.
    """
    frame = _frame_of_generate()
    return {} if frame is None else {name: frame.f_locals.get(name) for name in _NAMES}


def prompt_columns_of_generate() -> int | None:
    """The number of columns of the prompts in the `generate` that runs on this stack; None without one.

    In assisted generation, criteria are first called after several tokens; and a text may go on in a second
    generation. Only `generate` knows where the prompts end.
    """
    frame = _frame_of_generate()
    prompts = None if frame is None else frame.f_locals.get("input_ids")
    return int(prompts.shape[1]) if prompts is not None and prompts.ndim == 2 else None


def prompt_lengths_of_generate() -> list[int] | None:
    """The lengths of the prompts in the `generate` that runs on this stack, by their attention mask; None
    without one, and for prompts that are padded on the right."""
    frame = _frame_of_generate()
    keywords = {} if frame is None else frame.f_locals.get("model_kwargs", {})
    mask = keywords.get("attention_mask")
    if mask is None or mask.ndim != 2 or not mask.shape[1] or not bool(mask[:, -1].all()):
        return None
    lengths: list[int] = (mask != 0).sum(-1).tolist()
    return lengths


def _frame_of_generate() -> FrameType | None:
    frame = inspect.currentframe()
    while frame is not None and not _is_generate(frame):
        frame = frame.f_back
    return frame


def _is_generate(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return frame.f_code.co_name == "generate" and module.startswith("transformers.")
