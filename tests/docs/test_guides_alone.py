"""What a guide says of the command line holds without a checkout, and is all that there is."""

import re
from pathlib import Path

import pytest

from steptrail.interfaces.cli.findings import CHECKS

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.mark.parametrize("guide", ["workers", "a-fleet", "backing-up", "looking-after-a-store", "erasing-and-keeping"])
def test_no_command_of_an_operator_needs_a_checkout(guide: str) -> None:
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if re.search(r"steptrail .*\bexamples/", line)] == []


def test_every_check_of_the_doctor_stands_in_the_guide() -> None:
    text = (GUIDES / "looking-after-a-store.md").read_text(encoding="utf-8")
    table = text.partition("| check | damage | attention |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)) == set(CHECKS)
