"""Reads texts by a definition: `places` are where a text may be, `following` goes from one to another,
`automaton` remembers what has been found so, and `parts` become of what the text says."""

from .automaton import MessageAutomaton, SharedAutomata
from .following import joined
from .parts import TRIMS, Reading, ReadingOptions
from .places import MessagePlace, MessageStep
