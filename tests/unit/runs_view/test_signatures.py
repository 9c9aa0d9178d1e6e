"""Failures that are alike have one signature; a template holds no values; a tag is what a database can hold."""

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.tags import tags_in, tenant_in
from steptrail.domain.storable import plain
from steptrail.projections.runs_view.signature import kind_of, template_of
from steptrail.projections.runs_view.spread import bucket_of, middle_of
from steptrail.projections.runs_view.values import micros


@pytest.mark.parametrize(
    ("message", "template"),
    [
        ("'missing'", "#"),
        ("no order 4711 of user 12", "no order # of user #"),
        ('File "/tmp/a b.txt" not found', "File # not found"),
        ("it doesn't work", "it doesn't work"),
        ("can't read 'it''s' now", "can't read # now"),
        ("key AKIA2E5 and deadbeef and 0x7ffe3c", "key # and # and #"),
        ("call https://api.example/x?y now", "call # now"),
        ("write to ana@example.org", "write to #"),
        ("tried [1, 2, 3] of 9", "tried [#] of #"),
        ("a token " + "x" * 40, "a token #"),
        ('an open "quote', "an open #"),
        ('refused {"body": "{\\"name\\": \\"Ana\\"}", "n": 1}', "refused {#: #: #}"),
        ("refused {'said': 'it\\'s \\'Ana\\' now'}", "refused {#: #}"),
        ('cut off in "a quote\\', "cut off in #"),
        ("two\n  lines", "two lines"),
        ("", ""),
    ],
)
def test_a_template_is_the_message_without_its_values(message: str, template: str) -> None:
    assert template_of(message) == template


@given(st.integers(0), st.integers(0), st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_numbers_and_quoted_text_do_not_tell_failures_apart(one: int, two: int, said: str, other: str) -> None:
    first = template_of(f"order {one} of {said!r} failed after {two} s")
    assert first == template_of(f"order {two} of {other!r} failed after {one} s")


@given(st.text())
def test_a_template_is_short_and_of_one_line(message: str) -> None:
    template = template_of(message * 20)
    assert len(template) <= 200
    assert "\n" not in template
    assert "\0" not in template


def _error(**fields: object) -> ErrorInfo:
    given: dict[str, object] = {"type": ErrorType.TOOL, "error_class": "a:B", "message": "no 1"}
    return ErrorInfo(**{**given, **fields})  # type: ignore[arg-type]


def test_type_class_tool_and_template_tell_failures_apart_and_nothing_else_does() -> None:
    kinds = [
        kind_of(_error(), "t"),
        kind_of(_error(type=ErrorType.TIMEOUT), "t"),
        kind_of(_error(error_class="a:C"), "t"),
        kind_of(_error(), "u"),
        kind_of(_error(message="no such"), "t"),
    ]
    assert len({kind.signature for kind in kinds}) == len(kinds)
    alike = kind_of(_error(message="no 2", status_code=500, frames=("a.py:1 in f",)), "t")
    assert alike.signature == kinds[0].signature
    assert len(alike.signature) == 16


def test_tags_are_plain_values_and_few() -> None:
    tags: JsonValue = {"user": "u7", "n": 3, "x": 0.5, "on": True, "list": [1], "none": None}
    assert tags_in({"tags": tags}) == {"n": "3", "on": "true", "user": "u7", "x": "0.5"}
    many: JsonValue = {f"t{number:02}": number for number in range(40)}
    assert list(tags_in({"tags": many})) == [f"t{number:02}" for number in range(16)]


@pytest.mark.parametrize("tags", [None, 1, "x", [], ["a"], {"a": {"b": 1}}, {"a": 10**70}])
def test_what_is_no_tag_is_passed_over(tags: JsonValue) -> None:
    assert tags_in({"tags": tags}) == {}
    assert tags_in({}) == {}


@pytest.mark.parametrize(
    ("given", "tenant"), [("acme", "acme"), (7, "7"), (None, None), ("", None), ({"a": 1}, None), ("a" * 64, "a" * 64)]
)
def test_a_tenant_is_a_short_text(given: JsonValue, tenant: str | None) -> None:
    assert tenant_in({"tenant": given}) == tenant


def test_no_two_tenants_are_kept_alike() -> None:
    odd = ["a" * 64, "a" * 65, "a" * 64 + "b", "a" * 10_000, "a", "a\0", "\0a", "", "\0", "a?", "a\ud800", "a\ud801"]
    kept = [tenant_in({"tenant": each}) or "" for each in odd]
    again = [tenant_in({"tenant": each}) or "" for each in kept]
    assert len({*kept, *again} - {""}) >= len(odd) - 1
    assert len(set(kept)) == len(odd)
    assert all(len(each) <= 129 and plain(each) == each for each in kept)
    # Not even a tenant that is named as another one is kept.
    assert not {left for left, name in zip(again, kept, strict=True) if left != name} & set(kept)


def test_no_two_tags_are_kept_alike() -> None:
    odd = ["a" * 64, "a" * 64 + "b", "a" * 64 + "c", "a", "a\0", "a?", "a\ud800"]
    assert len(tags_in({"tags": dict.fromkeys(odd, "v")})) == len(odd)
    assert len({tags_in({"tags": {"user": each}})["user"] for each in odd}) == len(odd)


def test_a_text_has_nothing_that_a_database_refuses() -> None:
    assert plain("a\0b\ud800c") == "ab?c"
    assert plain("x" * 1000) == "x" * 400
    assert (plain("é" * 1000), plain("\N{GRINNING FACE}" * 1000)) == ("é" * 300, "\N{GRINNING FACE}" * 150)


def test_a_duration_fits_into_a_column() -> None:
    assert micros(1.5) == 1_500_000
    assert micros(1e300) == 2**53


@given(st.integers(0, 2**53))
def test_a_bucket_stands_for_its_times_within_two_per_cent(time: int) -> None:
    middle = middle_of(bucket_of(time))
    assert middle == 0 if time == 0 else abs(middle - time) <= 0.02 * time


def test_buckets_grow_with_the_time() -> None:
    buckets = [bucket_of(time) for time in (0, 1, 2, 100, 10_000, 2**53)]
    assert buckets == sorted(set(buckets))
