"""Arguments of `generate` that it keeps from a function given as `custom_generate`."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

_NAMES = ("streamer", "assistant_model", "synced_gpus")


def arguments_of_generate() -> dict[str, Any]:
    """streamer, assistant_model and synced_gpus of the `generate` that runs on this stack; {} without one.

    transformers accepts them together with a function as `custom_generate`, uses them in part (the prompt is
    streamed) and drops them, so they are read from its frame: otherwise they would have no effect, without a
    word.
    """
    frame = inspect.currentframe()
    while frame is not None and not _is_generate(frame):
        frame = frame.f_back
    return {} if frame is None else {name: frame.f_locals.get(name) for name in _NAMES}


def _is_generate(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return frame.f_code.co_name == "generate" and module.startswith("transformers.")
