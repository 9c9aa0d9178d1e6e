"""Texts are cut between characters as people see them."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from steptrail.projections.serialization.cutting import cut

FAMILY = "👨\u200d👩\u200d👧"
FLAGS = "🇩🇪🇫🇷🇮🇹"


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("0123456789", 4, "0123..."),
        ("0123", 4, "0123"),
        ("0123456789", 0, "0123456789"),
        ("0123456789", None, "0123456789"),
        ("ae\u0301o", 2, "a..."),
        ("ae\u0301o", 3, "ae\u0301..."),
        (f"a{FAMILY}b", 3, "a..."),
        (f"a{FAMILY}b", 6, f"a{FAMILY}..."),
        ("a👍🏽b", 2, "a..."),
        ("a❤\ufe0fb", 2, "a..."),
        (FLAGS, 3, "🇩🇪..."),
        (FLAGS, 4, "🇩🇪🇫🇷..."),
        ("a\r\nb", 2, "a..."),
        ("e" + "\u0301" * 99, 50, "e" + "\u0301" * 49 + "..."),
        (FAMILY, 1, "👨..."),
    ],
)
def test_a_text_is_cut_before_the_character_that_the_limit_falls_into(text: str, limit: int | None, kept: str) -> None:
    assert cut(text, limit) == kept


@given(st.text(), st.integers(1, 20))
def test_what_is_kept_begins_the_text_is_never_longer_than_the_limit_and_can_be_encoded(text: str, limit: int) -> None:
    kept = cut(text, limit)
    kept.encode()
    if len(text) > limit:
        head = kept.removesuffix("...")
        assert text.startswith(head)
        assert 0 < len(head) <= limit
    else:
        assert kept == text


@given(st.lists(st.sampled_from(["a", "e\u0301", "👍🏽", FAMILY, "中"])), st.integers(8, 40))
def test_no_accent_and_no_part_of_an_emoji_is_torn_off(characters: list[str], limit: int) -> None:
    text = "".join(characters)
    kept = cut(text, limit)
    rest = text.removeprefix(kept.removesuffix("..."))
    if kept != text:
        assert unicodedata.category(rest[0]) not in {"Mn", "Me"}
        assert "\u200d" not in (rest[0], kept.removesuffix("...")[-1])
        assert rest[0] != "🏽"
