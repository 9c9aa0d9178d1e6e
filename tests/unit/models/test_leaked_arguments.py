"""What of a reply's text is shown while it is written."""

import pytest

from steptrail.infrastructure.models.leaked_arguments import ShownText


def shown(*pieces: str, may_follow: bool = True) -> list[str]:
    text = ShownText(may_follow=may_follow)
    return [text.more(piece) for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["It ", "is."], ["It ", "is."]),
        ([" ", "\n", "It ", "is."], ["", "", " \nIt ", "is."]),
        (["{", '"a": 1}'], ["", ""]),
        ([" ", '{"a"', ": 1} is it"], ["", "", ""]),
        (["So: {", '"a": 1}'], ["So: {", '"a": 1}']),
        (["[1] says"], ["[1] says"]),
    ],
)
def test_text_that_may_be_arguments_is_held_back(pieces: list[str], expected: list[str]) -> None:
    assert shown(*pieces) == expected


def test_nothing_is_held_back_when_no_call_can_follow() -> None:
    assert shown(" ", "{", may_follow=False) == [" ", "{"]


def test_a_character_that_comes_in_halves_is_shown_whole() -> None:
    assert shown("a\ud83d", "\ude00b") == ["a", "\N{GRINNING FACE}b"]
    assert shown("a\ud83d", "b\ude00") == ["a", "\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize(
    ("pieces", "whole", "rest"),
    [
        (["It "], "It is.", "is."),
        (['{"a": 1}'], '{"a": 1}', '{"a": 1}'),
        (['{"a": 1}'], "", ""),
        (["It is."], "It is.", ""),
        (["It is."], "", ""),
        ([], "I cannot.", "I cannot."),
        (["a\ud83d"], "a\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_rest_is_what_was_held_back_and_stays(pieces: list[str], whole: str, rest: str) -> None:
    text = ShownText(may_follow=True)
    for piece in pieces:
        text.more(piece)
    assert text.rest(whole) == rest
