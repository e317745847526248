"""Alternatives for one value that are too many when they are multiplied out.

equal_schemas  subschemas that say the same in different places
exclusion      whether nothing satisfies several subschemas, more exactly than by outlines
members        what the parts of a choice say of one member
deciding       alternatives told apart by what they say of each member
"""

from .deciding import Deciding

__all__ = ["Deciding"]
