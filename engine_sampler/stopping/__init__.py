"""The built-in stopping criteria, one file each. A new file here is found by itself."""

from collections.abc import Callable
from typing import Any

from ..contract import StoppingCriteria
from ..discovery import objects_in
from ..hookspecs import hookimpl


@hookimpl
def register_stopping_criteria(register: Callable[[Any], None]) -> None:
    for criterion in objects_in(__name__, __path__, StoppingCriteria):
        register(criterion)
