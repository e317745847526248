"""KoboldAI, koboldcpp, TabbyAPI, text-generation-webui and Aphrodite: their requests, read into parameters.

>>> params = from_request({"rep_pen": 1.1, "rep_pen_range": 1024, "rep_pen_slope": 0.7, "tfs": 0.95})
>>> params.repetition_penalty, params.penalty_last_n, params.order, params.tfs_cut
(1.1, 1024, 'koboldai', 'koboldai')
"""

from .requests import from_request

__all__ = ["from_request"]
