"""Regular expressions over bytes and their derivatives (Brzozowski 1964), made as they are needed."""
