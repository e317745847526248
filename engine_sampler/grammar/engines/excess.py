"""The warning about a text that exceeds a budget of its grammar (`Program.budgets`)."""

from __future__ import annotations

import logging

logger = logging.getLogger("engine_sampler")


def warn_of_excess() -> None:
    """Once for each text, both engines say that it goes on where a budget should have ended it."""
    logger.warning(
        "a text exceeds max_tokens of a part of its grammar: the part cannot end after these tokens, "
        "and goes on until it can"
    )
