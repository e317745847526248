"""Triton kernels for the chains that decide the speed of a step, token for token equal to the NumPy
backend."""

from .check import repeatable, trusted
from .logprobs import Likeliest, likeliest, listed_width
from .outcome import KernelOutcome, deliver_tokens
from .plan import covers, plan_of
from .replay import Replay
from .revise import revise_tables
from .sampling import FAULTS, KernelCandidates, narrow, sample
from .workspace import Workspace, WorkspaceShape, bucket
