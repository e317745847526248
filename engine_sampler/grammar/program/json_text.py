"""JSON text that grammars are made of."""

from __future__ import annotations

import json
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from ..work import spend

_CHARACTERS_OF_A_STEP = 64


def loaded_json(name: str, text: str | bytes | bytearray) -> Any:
    """The value of JSON text. Raises GrammarError and GrammarLimitError, with the name of what it is."""
    spend(len(text) // _CHARACTERS_OF_A_STEP)
    try:
        return json.loads(text)
    except RecursionError:
        raise GrammarLimitError(f"{name} is nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        raise GrammarError(f"{name} is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:  # digits beyond what Python converts, and bytes that are no text
        raise GrammarError(f"{name} is not JSON: {error}") from None
