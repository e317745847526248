"""Regular expressions over bytes and their derivatives (Brzozowski 1964), computed on demand."""
