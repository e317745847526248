"""Whole rows to the ranks that own their requests, and their answers to all."""

from .scheduler import BatchShardedScheduler
