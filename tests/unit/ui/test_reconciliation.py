"""What was streamed gives way to what is stored: cases that every client runs, in whatever language.

A message of a case is `[id, role, content, metadata]`; without versions the stored conversation is the newer one.
"""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from steptrail.ui import UiConversation, UiMessage, reconcile

ROOT = Path(__file__).parents[3]
CASES: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "reconciliation_cases.json").read_bytes())
RULE = re.compile(r"^\| ([a-z ]+) \| .+ \| .+ \|$", re.MULTILINE)


def conversation(lines: list[list[Any]], version: int, status: str) -> UiConversation:
    messages = [
        {"id": line[0], "role": line[1], "content": line[2], "timestamp": "2026-01-01T00:00:00.000Z"}
        | ({"metadata": line[3]} if len(line) > 3 else {})
        for line in lines
    ]
    document = {"session_id": "session", "status": status, "version": version, "messages": messages, "approvals": []}
    return UiConversation.model_validate(document)


def both(case: dict[str, Any]) -> tuple[UiConversation, UiConversation]:
    shown = conversation(case["shown"], case.get("shown_version", 1), "in_progress")
    return shown, conversation(case["stored"], case.get("stored_version", 2), "completed")


def lines(messages: tuple[UiMessage, ...]) -> list[list[Any]]:
    plain = [message.to_dict() for message in messages]
    return [
        [each["id"], each["role"], each["content"], *([each["metadata"]] if "metadata" in each else [])]
        for each in plain
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_case(case: dict[str, Any]) -> None:
    shown, stored = both(case)
    result = reconcile(shown, stored)
    assert lines(result.messages) == case["expected"]
    assert result.status == (shown.status if stored.version < shown.version else stored.status)
    assert reconcile(result, stored) == result


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_what_comes_out_is_what_is_stored_and_errors(case: dict[str, Any]) -> None:
    shown, stored = both(case)
    if stored.version < shown.version:
        assert reconcile(shown, stored) is shown
        return
    added = [message for message in reconcile(shown, stored).messages if message not in stored.messages]
    assert {message.metadata.status_type for message in added if message.metadata is not None} <= {"error"}
    assert all(message in shown.messages for message in added)
    assert [message for message in reconcile(shown, stored).messages if message not in added] == list(stored.messages)


def test_every_rule_of_the_guide_has_a_case_and_every_case_a_rule() -> None:
    guide = (ROOT / "docs" / "guides" / "front-ends.md").read_text(encoding="utf-8")
    table = guide.partition("## When the stored conversation arrives")[2].partition("\n## ")[0]
    rules = [rule for rule in RULE.findall(table) if rule not in {"rule"}]
    assert set(rules) == {case["rule"] for case in CASES}
    assert len({case["name"] for case in CASES}) == len(CASES)
