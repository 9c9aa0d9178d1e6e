"""What a batch changes: what was said last of a row holds, as it is at the end."""

from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Row
from tests.views.counting import NOTES

_KEY = ("agent:a", 1)


def _row(version: int) -> Row:
    return {"stream": "agent:a", "number": 1, "version": version}


def test_a_row_that_is_put_is_written_as_it_is_at_the_end() -> None:
    changes, row = Changes(), dict(_row(1))
    changes.put(NOTES, row)
    row["version"] = 2
    assert changes.rows == {NOTES: {_KEY: _row(2)}}


def test_what_was_said_last_of_a_row_holds() -> None:
    changes = Changes()
    changes.put(NOTES, _row(1))
    changes.put(NOTES, _row(2))
    assert changes.rows[NOTES] == {_KEY: _row(2)}
    changes.drop(NOTES, _KEY)
    assert changes.rows[NOTES] == {_KEY: None}
    changes.put(NOTES, _row(3))
    assert changes.rows[NOTES] == {_KEY: _row(3)}
