"""The names of modules in the log: a file has one name, imported, as a program, and named on the command line.

So an agent or a workflow is the recorded one in all of these, and a failure has the same signature.
"""

import sys
from pathlib import PurePath

FROM_A_FILE = "steptrail_agent_"
"""The beginning of the name of a module that was loaded from a file by its path."""

_OF_THE_PROGRAM = ("__main__", "__mp_main__")
"""The names of the program itself, and in the processes that `multiprocessing` begins for it."""


def module_of(kind: object) -> str:
    """Return the name of the module of a class or a function."""
    name = str(getattr(kind, "__module__", None))
    return _program() if name in _OF_THE_PROGRAM else name.removeprefix(FROM_A_FILE)


def _program() -> str:
    program = sys.modules["__main__"]
    if (spec := getattr(program, "__spec__", None)) is not None:
        return str(spec.name)
    # A session at a prompt has no file.
    return PurePath(getattr(program, "__file__", None) or "__main__").stem
