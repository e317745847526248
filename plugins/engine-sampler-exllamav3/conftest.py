"""Without exllamav3 there is nothing to test."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "tests")]

import exllama_files  # noqa: E402

if exllama_files.FOLDER is None:
    collect_ignore = ["tests"]
