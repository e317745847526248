"""Steps that give all tokens new logits."""
