"""The error of a replay that parts from its recording."""


class ReplayMismatch(BaseException):
    """The run asks for something that was not recorded. The text names the first difference.

    It is no `Exception`, like the failures of test runners: an error policy would take it for an error of the model or
    of a tool, try again, and bury it under an ending that never was. The session is left as a crash would leave it.
    """
