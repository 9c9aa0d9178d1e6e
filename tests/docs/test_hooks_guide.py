"""The hooks guide says of every hook type what may be changed in it, and says what the code allows."""

import re
from pathlib import Path

from steptrail.hooks import CHANGES, HookType

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "hooks.md"
ROW = re.compile(r"^\| `(?P<type>\w+)` \|[^|]*\|(?P<methods>[^|]*)\|$", re.MULTILINE)


def told(text: str) -> list[tuple[str, set[str]]]:
    return [(row["type"], set(re.findall(r"`(\w+)`", row["methods"]))) for row in ROW.finditer(text)]


def test_the_table_names_every_hook_type_once_in_order_with_what_may_be_changed_in_it() -> None:
    allowed = [
        (hook_type.value, {method for method, types in CHANGES.items() if hook_type in types}) for hook_type in HookType
    ]
    assert told(GUIDE.read_text(encoding="utf-8")) == allowed


def test_a_table_that_leaves_out_a_method_is_seen() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert told(text.replace(" `with_request`", "")) != told(text)
