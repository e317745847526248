"""What grammars become: terminals (regular expressions over bytes) and rules (small automata)."""
