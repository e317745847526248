"""Alternatives for one value: formulas about objects or arrays as disjunctions of plain assertions.

clauses        multiplies them out
deciding       tells them apart by what they say of each member, where they multiply out to too many
equal_schemas  subschemas that say the same in different places
exclusion      whether nothing satisfies several subschemas, more exactly than by outlines
facts          what follows from assertions about one value
members        what the parts of a choice say of one member
"""

from .clauses import Atoms, disjuncts
from .deciding import Deciding
