"""Regular expressions in Python's and ECMAScript's syntax, read into terminals."""
