"""The keys by which the bodies of requests ask for structured output: what becomes of each."""
