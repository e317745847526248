"""Tokens a second of whole engines: llama.cpp and transformers, with their own sampling and with ours.

`python -m benchmarks.generation` measures all cases and prints them as Markdown; see docs/benchmarks.
"""
