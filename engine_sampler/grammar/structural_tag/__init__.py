"""Structural tags: free text with embedded tool calls and similar tags whose contents have schemas."""
