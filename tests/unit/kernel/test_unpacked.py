"""The lines of a snapshot, unpacked piece by piece: the same lines as ever, or a `ValueError`."""

import random

import pytest

from steptrail.runtime.kernel.snapshots import Unpacked, packed


def text(size: int) -> bytes:
    """Return bytes that no packing makes short, so that a few thousand fill several pieces."""
    return random.Random(size).randbytes(size).replace(b"\n", b" ")  # noqa: S311 - it guards nothing


@pytest.mark.parametrize(
    "lines",
    [
        [b""],
        [b"", b""],
        [b"a"],
        [b"a", b"", b"b"],
        [text(20_000)],
        [b"", text(9_000), b"", text(5_000), b"a"],
        [b"a"] * 9_000,
    ],
    ids=["nothing", "two empty ones", "one", "an empty one", "many pieces", "over the pieces", "many in a piece"],
)
def test_lines_come_back_as_they_were_as_often_as_somebody_goes_through_them(lines: list[bytes]) -> None:
    unpacked = Unpacked(packed(lines))
    assert list(unpacked) == list(unpacked) == lines


def test_what_is_no_packed_text_is_refused() -> None:
    whole = packed([text(20_000), b"{}"])
    longer = b"20005" + whole.removeprefix(b"20003")
    for broken in (b"", b"rubbish", b"9 rubbish", whole[:-1], whole[:9_000], longer, b" " + whole, b"x" + whole):
        with pytest.raises(ValueError, match=r".+"):
            list(Unpacked(broken))
