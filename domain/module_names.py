"""The names of modules in the log: a file has one name, imported, as a program, and named on the command line.

So an agent or a workflow is the recorded one in all of these, and a failure has the same signature. Only a program that
is run by the path of its file (`python shop/flows.py`, not `-m shop.flows`) has no package for Python, nor here.
"""

import sys
from pathlib import PurePath

_FROM_A_FILE, _IN_A_PACKAGE = "steptrail_agent_", "/"
_OF_A_PROGRAM = frozenset({"__main__", "__mp_main__"})
"""The names that Python gives to the module of a program: to run it, and in a process that `multiprocessing` spawns."""


def name_from_a_file(*parts: str) -> str:
    """Return the name of a module that is loaded from a file by its path: its packages and itself are the parts.

    It is none that other code imports. It has no dot, because Python would look for a package of that name.
    """
    return _FROM_A_FILE + _IN_A_PACKAGE.join(parts)


def module_of(kind: object) -> str:
    """Return the name of the module of a class or a function."""
    name = str(getattr(kind, "__module__", None))
    if name.startswith(_FROM_A_FILE):
        return name.removeprefix(_FROM_A_FILE).replace(_IN_A_PACKAGE, ".")
    return _file_of(name) if name in _OF_A_PROGRAM else name


def _file_of(name: str) -> str:
    """Return the name under which other code would import the program."""
    program = sys.modules.get(name)
    if (spec := getattr(program, "__spec__", None)) is not None:
        return str(spec.name)
    # A session at a prompt has no file.
    return PurePath(getattr(program, "__file__", None) or name).stem
