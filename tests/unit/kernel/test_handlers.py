"""A table of handlers that lacks an event, or has one too many, cannot be made."""

import pytest

from steptrail.domain.agent.events import StopRequested
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers, complete
from steptrail.testing.store_samples import Noted, Written

Sample = Noted | Written
Foreign = Noted | StopRequested


def handlers() -> Handlers[list[str], [], None]:
    made = Handlers[list[str], [], None]()

    @made.of(Noted)
    def noted(heard: list[str], event: Noted) -> None:
        heard.append(event.text)

    assert callable(noted)
    return made


def writers() -> Handlers[list[str], [], None]:
    made = Handlers[list[str], [], None]()

    @made.of(Written)
    def written(heard: list[str], event: Written) -> None:
        heard.append(f"{event.data}")

    assert callable(written)
    return made


def test_each_event_goes_to_its_handler() -> None:
    table, heard = complete(Sample, handlers(), writers()), list[str]()
    for event in (Noted(text="a"), Written(data=2)):
        table[type(event)](heard, event)
    assert heard == ["a", "2"]


def test_one_handler_may_handle_several_classes() -> None:
    both = Handlers[list[str], [], None]()

    @both.of(Noted, Written)
    def either(heard: list[str], event: Event) -> None:
        heard.append(event.TYPE)

    table, heard = complete(Sample, both), list[str]()
    for event in (Noted(text="a"), Written(data=2)):
        table[type(event)](heard, event)
    assert heard == [Noted.TYPE, Written.TYPE]
    assert callable(either)


def test_an_event_without_a_handler_is_an_error_when_the_table_is_made() -> None:
    with pytest.raises(TypeError, match="the event Written has no handler"):
        complete(Sample, handlers())


def test_a_second_handler_is_an_error_within_a_part_and_between_two() -> None:
    part = handlers()
    with pytest.raises(TypeError, match="the event Noted has two handlers"):
        part.of(Noted)(lambda heard, event: heard.append(event.text))
    with pytest.raises(TypeError, match="the event Noted has two handlers"):
        complete(Sample, handlers(), writers(), handlers())


def test_a_handler_of_a_foreign_event_is_an_error() -> None:
    with pytest.raises(TypeError, match="a handler of Written, which is no event of this machine"):
        complete(Foreign, handlers(), writers())
