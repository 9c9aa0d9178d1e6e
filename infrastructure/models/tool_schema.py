"""The schemas of tools as services take them, which refuse a whole request for the schema of one tool."""

from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.domain.output_schema import told_in_words
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.wire import as_list, as_object

_NOT_AT_THE_TOP: Final = ("allOf", "anyOf", "enum", "not", "oneOf")


def tool_schema(spec: ToolSpec) -> dict[str, JsonValue]:
    """Return the schema of the arguments: an object with properties, and without rules that join several schemas.

    Tool servers have such rules, to say which arguments go together. The description tells them, and the properties of
    their branches are among those of the whole: in any of the forms that the branches give to one, such as the word
    that tells them apart.
    """
    given = spec.parameters
    told = {key: value for key, value in given.items() if key in _NOT_AT_THE_TOP}
    branches = [as_object(each) for key in ("allOf", "anyOf", "oneOf") for each in as_list(told.get(key))]
    forms: dict[str, list[JsonValue]] = {}
    for branch in branches:
        for name, form in as_object(branch.get("properties")).items():
            if form not in forms.setdefault(name, []):
                forms[name].append(form)
    joined: dict[str, JsonValue] = {
        name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in forms.items()
    }
    properties = joined | as_object(given.get("properties"))
    kept = {key: value for key, value in given.items() if key not in told}
    return told_in_words({**kept, "type": "object", "properties": properties}, told)
