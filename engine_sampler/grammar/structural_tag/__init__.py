"""Structural tags: free text with tool calls and the like, whose contents have schemas."""
