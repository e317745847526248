"""These tests need torch; they compare with the core, and use the random requests of its tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PLUGIN = Path(__file__).parents[1]
sys.path[:0] = [str(PLUGIN), str(PLUGIN.parents[1])]

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*"]
