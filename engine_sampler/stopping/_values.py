"""How values of criteria are read."""

from __future__ import annotations
