"""Ids sort by the time at which they were made, and no two are the same, also not those of a parent and its child."""

import os
import re

from steptrail.runtime.kernel.ids import new_id

UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id("c") for _ in range(1_000)]
    assert sorted(ids) == ids
    assert len({made[-12:] for made in ids}) == len(ids)
    assert all(re.fullmatch(f"c-{UUID7}", made) for made in ids)


def test_a_forked_child_has_other_random_bits_than_its_parent() -> None:
    new_id("c")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, " ".join(new_id("c") for _ in range(20)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = {made[-12:] for made in os.read(reader, 4096).decode().split()}
    ours = {new_id("c")[-12:] for _ in range(20)}
    assert len(theirs) == len(ours) == 20
    assert not theirs & ours
