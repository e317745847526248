"""`engine-sampler bench`: how fast this machine samples, in a minute, and how fast installed peers do.

cases   the work that is timed: steps of a scheduler; calls take turns, and their medians count
peers   the same chain by transformers and llama.cpp
report  the command: its options, and the result as a table in Markdown, with the machine
rows    synthetic logits, shaped like those of real models; `benchmarks` uses them too
"""

from .cases import Measurement, measure
from .report import machine, markdown
