"""Strings and numbers: sets of them as expressions of their JSON texts.

strings           the strings of one disjunct: lengths, patterns, formats, constants
formats           what `format` asserts
texts             the bytes that represent a string in JSON
lifting           from expressions of strings to expressions of their JSON texts
numbers           the numbers of one disjunct
number_automaton  reads a number digit by digit, and compares it with constants
number_states     what is known of the number meanwhile
matching          whether an expression matches a text, or anything
"""
