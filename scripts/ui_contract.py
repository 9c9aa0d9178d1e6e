"""Write the contract for front ends, docs/ui/, from the models of steptrail.ui, or check that it is fresh.

python scripts/ui_contract.py            write the JSON schema and the TypeScript types
python scripts/ui_contract.py --check    fail when they are not what the models say
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from steptrail.ui import UiConversation, UiFlowRun

FOLDER = Path(__file__).parents[1] / "docs" / "ui"
SCHEMA, FLOW_SCHEMA, TYPES = "steptrail-ui.schema.json", "steptrail-ui-flow.schema.json", "steptrail-ui.d.ts"
FILES = (SCHEMA, FLOW_SCHEMA, TYPES)

Schema = dict[str, Any]

HEAD = """\
// What a front end renders of a Steptrail session, `UiConversation`, or of a run of a workflow, `UiFlowRun`.
// Written by scripts/ui_contract.py from the models of steptrail.ui; a test fails when it is stale. Do not edit.
// A property that is absent is not known or not shown; none is ever null. Ignore properties that you do not know.

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };
"""
PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def schema(model: type[UiConversation | UiFlowRun] = UiConversation) -> Schema:
    """Return the JSON schema of a model. What may be absent is never null, as `to_dict` writes it."""
    made = cast(Schema, _without_noise(model.model_json_schema()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _without_noise(node: object) -> object:
    if isinstance(node, list):
        return [_without_noise(each) for each in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    given = cast(Schema, node)
    if "anyOf" in given:
        (kind,) = [each for each in given["anyOf"] if each != {"type": "null"}]
        return _without_noise(kind)
    return {key: _without_noise(value) for key, value in given.items() if not _is_noise(key, value)}


def _is_noise(key: str, value: object) -> bool:
    # A property may be called like that, and is an object then.
    return key in {"title", "default"} and not isinstance(value, dict)


def types(**wholes: Schema) -> str:
    """Return TypeScript declarations of schemas as `schema` makes them, by the names of their models.

    Raises `ValueError` for what it cannot say.
    """
    named: dict[str, Schema] = {}
    for name, whole in wholes.items():
        named |= {part: kind for part, kind in whole["$defs"].items() if part != "JsonValue"} | {name: whole}
    return "\n".join([HEAD, *(_declared(name, kind) for name, kind in named.items())])


def _declared(name: str, kind: Schema) -> str:
    comment = "\n".join(_comment(kind["description"]))
    if "enum" in kind:
        return f"{comment}\nexport type {name} = {_type(kind)};\n"
    required = set(kind.get("required", ()))
    lines = [
        f"  readonly {key}{'' if key in required else '?'}: {_type(value)};"
        for key, value in kind["properties"].items()
    ]
    return "\n".join([comment, f"export interface {name} {{", *lines, "}\n"])


def _comment(text: str) -> Iterator[str]:
    yield "/**"
    yield from (f" * {line}".rstrip() for line in text.splitlines())
    yield " */"


def _type(kind: Schema) -> str:
    name = kind.get("type")
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    if "enum" in kind:
        return " | ".join(json.dumps(member) for member in kind["enum"])
    if name == "array" and "items" in kind:
        return f"readonly {_type(kind['items'])}[]"
    if name == "object" and "additionalProperties" in kind:
        return f"{{ readonly [key: string]: {_type(kind['additionalProperties'])} }}"
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    msg = f"no TypeScript type is known for {kind}"
    raise ValueError(msg)


def contract() -> dict[str, str]:
    """Return the text of each file by its name."""
    session, flow = schema(), schema(UiFlowRun)
    return {
        SCHEMA: json.dumps(session, indent=2, ensure_ascii=False) + "\n",
        FLOW_SCHEMA: json.dumps(flow, indent=2, ensure_ascii=False) + "\n",
        TYPES: types(UiConversation=session, UiFlowRun=flow),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` say which are stale."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for name, text in contract().items():
        path = FOLDER / name
        if not arguments:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"docs/ui/{name} is stale: run `python scripts/ui_contract.py`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
