"""Generates what is in `docs/` beside the hand-written pages: a page and a picture for every sampler,
selector and criterion, the table of all parameters, the API reference, and the figures.

    python -m docs.generate

Everything comes from the registry, from docstrings and from the library's own results, so it is the same on
every machine. The files are committed, since the pages are also read in a repository browser; a test compares
them.
"""

import sys
from pathlib import Path

# Integrations are distributions of their own; their pages are made from where they are, without an install.
sys.path += [str(path) for path in Path(__file__).resolve().parents[2].glob("plugins/engine-sampler-*")]
