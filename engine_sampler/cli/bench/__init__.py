"""`engine-sampler bench`: how fast this machine samples, in a minute, and how fast installed peers do.

cases    the work that is timed: steps of a scheduler
peers    the same chain by transformers and llama.cpp
timing   calls that take turns, and their medians
report   the result as a table in Markdown, with the machine
command  the options, and what is printed
rows     synthetic logits, shaped like those of real models; `benchmarks` uses them too
"""

from .cases import measure
from .report import machine, markdown
from .timing import Measurement

__all__ = ["Measurement", "machine", "markdown", "measure"]
