"""`python -m steptrail`: the command line."""

import sys

from steptrail.interfaces.cli.program import program

__all__ = ["program"]

if __name__ == "__main__":
    sys.exit(program())
