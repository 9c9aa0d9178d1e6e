"""What a batch changes: rows that are put at once, and rows that are made when it ends."""

from functools import partial

from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Row
from tests.views.counting import NOTES

_KEY = ("agent:a", 1)


def _row(version: int) -> Row:
    return {"stream": "agent:a", "number": 1, "version": version}


def test_a_row_put_for_later_is_made_once_of_what_there_is_at_the_end() -> None:
    changes, numbers, made = Changes(), [1], list[Row]()

    def make() -> Row:
        made.append(_row(numbers[-1]))
        return made[-1]

    changes.put_later(NOTES, _KEY, make)
    numbers.append(2)
    changes.put_later(NOTES, _KEY, make)
    assert changes.rows == {NOTES: {_KEY: _row(2)}}
    assert changes.rows == {NOTES: {_KEY: _row(2)}}
    assert len(made) == 1


def test_a_row_that_is_put_is_written_as_it_is_at_the_end() -> None:
    changes, row = Changes(), dict(_row(1))
    changes.put(NOTES, row)
    row["version"] = 2
    assert changes.rows == {NOTES: {_KEY: _row(2)}}


def test_what_was_said_last_of_a_row_holds() -> None:
    changes = Changes()
    changes.put(NOTES, _row(1))
    changes.put_later(NOTES, _KEY, partial(_row, 2))
    assert changes.rows[NOTES] == {_KEY: _row(2)}
    changes.put_later(NOTES, _KEY, partial(_row, 3))
    changes.put(NOTES, _row(4))
    assert changes.rows[NOTES] == {_KEY: _row(4)}
    changes.put_later(NOTES, _KEY, partial(_row, 5))
    changes.drop(NOTES, _KEY)
    assert changes.rows[NOTES] == {_KEY: None}
    changes.put_later(NOTES, _KEY, partial(_row, 6))
    assert changes.rows[NOTES] == {_KEY: _row(6)}
