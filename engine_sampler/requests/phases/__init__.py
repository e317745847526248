"""The phases of one request: an automaton over its tokens, and where the request is in it."""

from .moving import RequestPhases
