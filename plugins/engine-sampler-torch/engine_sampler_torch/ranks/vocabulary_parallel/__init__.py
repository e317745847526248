"""Logits that stay with their ranks; maxima, sums, candidates and histograms to all."""

from .parallel_rows import ParallelRows
from .sampler import VocabularyParallelSampler
from .step import ParallelSample

__all__ = ["ParallelRows", "ParallelSample", "VocabularyParallelSampler"]
