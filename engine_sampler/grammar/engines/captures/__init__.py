"""Captures: what the rules of a grammar that have the attribute `capture` have matched in a text.

The engines follow all ways to read a text at once, and keep none of them. So captures are read from the
accepted text when they are asked for: nothing of them is kept beside it, and tokens that are taken back,
drafts and forks need no care. The work is linear in the text for most grammars, and bounded for all.

    units         the text: bytes, and special tokens between them
    splitting     the terminals that it consists of; `threads`: which of them end as an engine goes on
    expectations  what may follow in rules
    chart         the rules over these terminals, as Earley's parser finds them
    derivation    one way to read the text, out of a chart
    lalr          the rules as an LALR parser finds them
    reading       all of these for one grammar, kept for its next text
"""

from ..steps import Steps
from .capture import Capture, Captures
from .reading import captures_of_text, captures_of_tokens
