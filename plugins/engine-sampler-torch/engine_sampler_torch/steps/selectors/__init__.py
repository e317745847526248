"""The choice of a token."""
