"""The program `steptrail`: the command line, which also says nothing of Ctrl-C while its modules are imported."""

from steptrail.interfaces.cli.exits import Exit


def program() -> int:
    """Carry out what the program was called with, and return its exit code."""
    try:
        from steptrail.interfaces.cli.main import main

        return main()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
