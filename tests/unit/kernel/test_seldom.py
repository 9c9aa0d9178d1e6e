"""The same warning is told more and more seldom, and anew when it was over."""

import logging

import pytest

from steptrail.runtime.kernel.log_raised import Seldom


def test_the_same_warning_is_told_more_and_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logging.getLogger("steptrail.test"))
    for _ in range(4096):
        seldom.warn("%s is away", "the store")
    assert [record.message for record in caplog.records[:2]] == ["the store is away"] * 2
    counted = [str(record.args[-1]) for record in caplog.records[2:] if isinstance(record.args, tuple)]
    assert counted == ["4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "3072", "4096"]


def test_another_warning_and_one_that_was_over_are_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logging.getLogger("steptrail.test"))
    for said in ("away", "away", "away", "gone", "away", "away", "away"):
        seldom.warn("the store is %s", said)
    seldom.over()
    seldom.warn("the store is %s", "away")
    words = [record.message.rpartition(" ")[2] for record in caplog.records]
    assert words == ["away", "away", "gone", "away", "away", "away"]
