"""The embedded engine and the demo: real logits without a download. Needs the extra `demo`."""

from typing import TYPE_CHECKING

from ..base.cached import lazy_names

if TYPE_CHECKING:
    from .engine import DemoSession, Engine

__all__ = ["DemoSession", "Engine"]

# What loads tokenizers.
__getattr__ = lazy_names(__name__, {".engine": "DemoSession Engine"})
