"""How values of a run are written for front ends: arguments, results and instants, short enough to show.

One place for it, so that a message that was broadcast and the same message in a conversation read alike. Everything is
counted in characters, never in bytes.
"""

from collections.abc import Mapping

from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import result_text
from steptrail.projections.serialization.cutting import cut

_SHOWN_ARGUMENTS = 3
_LONGEST_ARGUMENT = 30
_LONGEST_RESULT = 100


def args_summary(arguments: Mapping[str, JsonValue]) -> str:
    """Return the first three arguments as `key: value`: text in single quotes, anything else as compact JSON.

    A value longer than 30 characters, its quotes included, becomes its first 27 and `...`. Arguments that are left out
    leave no mark.
    """
    shown = list(arguments.items())[:_SHOWN_ARGUMENTS]
    return ", ".join(f"{key}: {_shortened(_quoted(value), _LONGEST_ARGUMENT)}" for key, value in shown)


def cut_args(arguments: Mapping[str, JsonValue], longest: int) -> dict[str, JsonValue]:
    """Return the arguments with every text among them cut to `longest` characters and `...`; 0 keeps none of them.

    Text inside of lists and objects is left whole.
    """
    return {key: _cut(value, longest) if isinstance(value, str) else value for key, value in arguments.items()}


def result_summary(result: JsonValue) -> str | None:
    """Return a result as text or compact JSON, its first 97 characters and `...` when it has more than 100.

    There is none for the result that is None.
    """
    return None if result is None else _shortened(result_text(result), _LONGEST_RESULT)


def timestamp_text(microseconds: int) -> str:
    """Return an instant, in microseconds of UTC, as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{to_datetime(seconds * 1_000_000):%Y-%m-%dT%H:%M:%S}.{rest // 1000:03d}Z"


def _cut(text: str, longest: int) -> str:
    return cut(text, longest) if longest or not text else "..."


def _quoted(value: JsonValue) -> str:
    return f"'{value}'" if isinstance(value, str) else result_text(value)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else cut(text, longest - 3)
