from steptrail.domain.newest import Newest


def test_it_keeps_what_was_kept_last() -> None:
    newest = Newest[str, int](2)
    assert [newest.keep(key, place) for place, key in enumerate(("a", "b", "a", "c"))] == [0, 1, 2, 3]
    assert dict(newest) == {"a": 2, "c": 3}
