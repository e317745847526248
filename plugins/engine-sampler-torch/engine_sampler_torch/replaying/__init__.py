"""Training that repeats the rollout: the logprobs of drawn tokens, with gradients.

record    what a rollout has recorded, checked
walk      the samplers' view of every step of the rollout, by a scheduler that is told the tokens
pieces    some rows of a group: forward, bit for bit as in the rollout, and backward
function  `replay`, the autograd function over all pieces
"""

from .function import replay
from .record import ReplayRecord
