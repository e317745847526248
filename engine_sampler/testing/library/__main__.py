"""The process in which `check_apart` runs the checks."""

import sys

from .checking import main

main(sys.argv[1:])
