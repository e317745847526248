"""Steps that remove unlikely tokens."""
