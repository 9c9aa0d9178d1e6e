"""The ids of what a front end shows: derived from session, execution, step and position, so nothing is drawn twice.

A process that streams a run can say the id of a message before the message is stored. The tool message of a call has
the call's effect id, and so has the approval that is asked for it.
"""


def reply_id(execution: str, step: int) -> str:
    """Return the id of the model's reply in step `step` (from 1); the parts of it that are streamed have it too."""
    return f"{execution}:{step}"


def said_id(session: str, ordinal: int) -> str:
    """Return the id of the message number `ordinal` (from 1) of those that no step made, in the order of the saying."""
    return f"{session}:said:{ordinal}"


def status_id(about: str, status_type: str) -> str:
    """Return the id of a status message about an execution or a message."""
    return f"{about}:{status_type}"
