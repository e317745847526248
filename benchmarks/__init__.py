"""How long sampling takes, beside the peers and the time to read the logits once; see README.md."""
