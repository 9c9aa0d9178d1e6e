"""The files of the contract for front ends say what the models say, and notice when they do not."""

import json
from pathlib import Path

import pytest

from scripts import ui_contract
from steptrail.ui import UiFlowRun


def test_the_files_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert (ui_contract.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_another_model_makes_all_files_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = ui_contract.schema()
    changed["properties"]["mood"] = {"type": "string"}

    def another(model: object = None) -> object:
        del model
        return changed

    monkeypatch.setattr(ui_contract, "schema", another)
    assert ui_contract.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert [name for name in ui_contract.FILES if f"docs/ui/{name} is stale" not in told] == []


def test_the_types_declare_every_model_and_every_key_that_may_be_absent() -> None:
    session, flow = ui_contract.schema(), ui_contract.schema(UiFlowRun)
    declared = ui_contract.types(UiConversation=session, UiFlowRun=flow)
    named = {**session["$defs"], **flow["$defs"], "UiConversation": session, "UiFlowRun": flow}
    del named["JsonValue"]
    for name, kind in named.items():
        assert f"export interface {name} {{" in declared or f"export type {name} = " in declared
        for key in kind.get("properties", {}):
            mark = "" if key in kind.get("required", ()) else "?"
            assert f"\n  readonly {key}{mark}: " in declared


def test_nothing_in_the_schema_may_be_null_and_unknown_keys_are_allowed(root: Path) -> None:
    text = (root / "docs" / "ui" / ui_contract.SCHEMA).read_text(encoding="utf-8")
    assert '"null"' not in text
    assert '"additionalProperties": false' not in text
    assert json.loads(text)["required"] == ["session_id", "status", "version", "messages", "approvals"]


def test_a_type_that_typescript_has_no_word_for_is_refused() -> None:
    odd = {"description": "Odd.", "properties": {"key": {"type": "tuple"}}, "$defs": {}}
    with pytest.raises(ValueError, match="no TypeScript type is known"):
        ui_contract.types(Odd=odd)


def test_files_are_not_checked_by_what_the_script_was_not_asked_for() -> None:
    assert ui_contract.main(["--chekc"]) == 2
