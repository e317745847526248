"""Finished texts: whether they are in a language, what completes them, and what repairs them."""

from .correction import Change, Check, Repair, check, complete, repair

__all__ = ["Change", "Check", "Repair", "check", "complete", "repair"]
