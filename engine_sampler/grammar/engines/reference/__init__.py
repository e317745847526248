"""The grammar engine in Python and NumPy: where there is no compiled one, and what that is held against.

grammar = ReferenceGrammar(program, token_bytes, eos_token_ids, special_token_ids)
matcher = grammar.matcher()
"""

from .matcher import ReferenceGrammar, ReferenceMatcher
from .vocabulary import ReferenceVocabulary

__all__ = ["ReferenceGrammar", "ReferenceMatcher", "ReferenceVocabulary"]
