"""The compiled form of grammars: terminals (regular expressions over bytes) and rules (small automata)."""
