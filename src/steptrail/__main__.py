"""`python -m steptrail`: the command line."""

import sys

from steptrail.interfaces.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
