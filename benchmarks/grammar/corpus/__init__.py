"""Runs whole collections of JSON Schemas with their instances: `python -m benchmarks.grammar.corpus`."""
