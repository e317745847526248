"""The parts of a page, each a class that is built where it stands and told when to refresh."""

from .chain_part import ChainPart
from .compare_part import ComparePart
from .grammar_part import GrammarPart
from .row_part import RowPart
from .take_part import TakePart

__all__ = ["ChainPart", "ComparePart", "GrammarPart", "RowPart", "TakePart"]
