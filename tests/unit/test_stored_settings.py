"""Settings in stored bytes are checked by the decoder, and those that people write by the constructor."""

import re
import threading

import pytest
from msgspec import structs

from steptrail import Limits
from steptrail.domain.base import Settings, Value, reader_of
from steptrail.domain.errors import InvalidSetting

read_limits = reader_of(Limits)


class Shelf(Settings, frozen=True, kw_only=True):
    width: int
    caught: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        thread = threading.Thread(target=self._make_one)
        thread.start()
        thread.join()

    def _make_one(self) -> None:
        try:
            Limits(max_steps=-1)
        except InvalidSetting as error:
            structs.force_setattr(self, "caught", (str(error),))


class Room(Value, frozen=True, kw_only=True):
    shelves: tuple[Shelf | None, ...]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ('{"max_steps":-1}', "Expected `int` >= 0 - at `$.max_steps`"),
        ('{"max_steps":"3"}', "Expected `int | null`, got `str` - at `$.max_steps`"),
        ('{"timeout":1e400}', "Number out of range"),
        ('{"finish_reasons":["tired"]}', "Invalid enum value 'tired' - at `$.finish_reasons[0]`"),
        ('{"max_cost":"1.5"}', "Limits: max_cost: a limit on cost needs `prices`, not Decimal('1.5')"),
        ('{"max_cost":"NaN"}', "Limits: max_cost: Expected an amount of money, 0 or more, not Decimal('NaN')"),
    ],
)
def test_what_no_constructor_takes_cannot_be_read(stored: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read_limits(stored)
    # A read that failed leaves nothing behind: what people write is checked as before.
    with pytest.raises(InvalidSetting, match="Limits: max_steps: Expected `int` >= 0"):
        Limits(max_steps=-1)


def test_what_is_read_is_as_the_constructor_makes_it() -> None:
    stored = '{"max_steps":3,"timeout":5,"finish_reasons":["length"],"shadow":["timeout","max_steps","timeout"]}'
    read = read_limits(stored)
    made = Limits(max_steps=3, timeout=5, finish_reasons=["length"], shadow=["timeout", "max_steps"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert read == made
    assert [type(getattr(read, name)) for name in read.__struct_fields__] == [
        type(getattr(made, name)) for name in made.__struct_fields__
    ]


def test_another_thread_is_checked_while_one_reads() -> None:
    room = reader_of(Room)('{"shelves":[{"width":3},null]}')
    assert room.shelves[0] is not None
    assert room.shelves[0].caught == ("Limits: max_steps: Expected `int` >= 0, not -1",)
