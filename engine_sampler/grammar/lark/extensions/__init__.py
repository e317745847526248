"""Forms of grammars that lark does not know, each in a module of its own; see `dialect`."""
