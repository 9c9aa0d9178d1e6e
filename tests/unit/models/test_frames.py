"""A recorded failure says where in the user's code it happened, and nothing of what stood there."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from steptrail.domain.base import full_form
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.runtime.agent.capture import capture

MODULE = """
import json

def parse(text):
    return json.loads(text)

def wrapped(text):
    try:
        return parse(text)
    except ValueError as error:
        raise LookupError("no such order") from error

class Shop:
    def deep(self, depth):
        if depth:
            return self.deep(depth - 1)
        raise KeyError("missing")
"""


def info_of(call: Callable[[], object], default: ErrorType = ErrorType.TOOL) -> ErrorInfo:
    with pytest.raises(Exception) as raised:  # noqa: PT011  every kind is looked at
        call()
    return capture(raised.value, default=default, now=0.0)


def module_at(path: Path, name: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MODULE)
    module = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(MODULE, str(path), "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    return module_at(tmp_path / "shop" / "orders.py", "shop.orders")


def below_the_test(info: ErrorInfo) -> list[str]:
    return [frame for frame in info.frames if "test_frames" not in frame]


def test_the_innermost_place_in_the_users_code_is_named_and_not_that_of_the_library_it_called(shop: ModuleType) -> None:
    info = info_of(lambda: shop.parse("{"))
    assert info.place == "shop/orders.py:5 in parse"
    assert not any("decoder" in frame for frame in info.frames)
    assert str(info) == (
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) "
        "(shop/orders.py:5 in parse)"
    )


def test_the_frames_of_the_cause_come_after_those_of_what_was_raised(shop: ModuleType) -> None:
    info = info_of(lambda: shop.wrapped("{"))
    assert below_the_test(info) == [
        "shop/orders.py:11 in wrapped",
        "shop/orders.py:5 in parse",
        "shop/orders.py:9 in wrapped",
    ]


def test_no_more_than_five_frames_are_kept_however_deep_it_was(shop: ModuleType) -> None:
    info = info_of(lambda: shop.Shop().deep(300))
    assert info.frames[0] == "shop/orders.py:17 in Shop.deep"
    assert len(info.frames) <= 5


def test_a_file_outside_the_working_directory_is_named_from_where_modules_are_imported(
    shop: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert info_of(lambda: shop.parse("{")).place == "shop/orders.py:5 in parse"
    monkeypatch.setattr(sys, "path", [str(tmp_path / "shop"), str(tmp_path), *sys.path])
    assert info_of(lambda: shop.parse("{")).place == "orders.py:5 in parse"


def test_a_service_that_is_installed_itself_is_found_in_its_package(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    module = module_at(packages / "shop" / "orders.py", "shop.orders")
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        module.parse("{")
    # What a run sees of it: no frame of this test.
    raised.value.__traceback__ = raised.value.__traceback__ and raised.value.__traceback__.tb_next
    as_a_tool = capture(raised.value, default=ErrorType.TOOL, now=0.0)
    assert as_a_tool.frames == ("shop/orders.py:5 in parse",)
    assert capture(raised.value, default=ErrorType.MODEL, now=0.0).frames == ()


def test_what_was_never_raised_has_no_place() -> None:
    info = capture(KeyError("missing"), default=ErrorType.TOOL, now=0.0)
    assert (info.place, str(info)) == (None, "KeyError: 'missing'")


def test_an_exception_without_words_is_told_by_its_class() -> None:
    assert capture(TimeoutError(), default=ErrorType.TOOL, now=0.0).said == "TimeoutError"


def test_no_source_and_no_values_come_along(shop: ModuleType) -> None:
    info = info_of(lambda: shop.parse('{"card": 4111111111111111'))
    assert "4111" not in json.dumps(full_form(info))
