"""The kinds that let a run pass, or not: gates, and guardians with their checks."""

from dataclasses import replace
from typing import cast

from steptrail.domain.flow.kinds.conditions import holds
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.kinds.values import has_type, identity, number_in, text_of
from steptrail.domain.flow.nodes import CheckSpec, Expression, GateNode, GuardianNode, OnFail
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue


def gate(node: GateNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return whether the run passes. Raises `NodeFault` of the class `blocked`."""
    if node.when is None or holds(node.when, seen, means):
        return Evaluated(output={"passed": True, "action": "pass"}, route=_past(node, seen))
    why = node.message or f"{node.when.text} does not hold"
    if node.when.kind == "path" and not seen.find(node.when.text)[0]:
        # A misspelt path never holds, and would look like a no.
        why = f"{why} (there is nothing at {node.when.text})"
    return _stopped(node, why, {"when": node.when.text})


def guardian(node: GuardianNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return what the checks found. Raises `NodeFault` of the class `blocked` when there is anything."""
    findings = [(check, message) for check in node.checks if (message := finding(check, seen, means)) is not None]
    listed: list[JsonValue] = [
        {"check": check.kind, "path": check.path, "message": check.message or message} for check, message in findings
    ]
    if not findings:
        return Evaluated(output={"passed": True, "action": "pass", "findings": []}, route=_past(node, seen))
    why = "; ".join(check.message or message for check, message in findings)
    return _stopped(node, why, {"findings": listed})


def finding(check: CheckSpec, seen: Seen, means: NodeMeans) -> str | None:
    """Return what is wrong with the value that is checked; None for nothing.

    What it needs is there: a node without it is not made. A missing value is wrong for `required` and `expr` alone.
    Raises `NodeFault` of the class `config` for a pattern, a schema or an expression that cannot be used.
    """
    # Only an expression is without a path, and then it looks at the whole run.
    is_there, value = (True, None) if check.path is None else seen.find(check.path)
    place = check.path or "the run"
    if check.kind == "expr":
        return None if _expression_holds(check, seen, means, value) else f"{place}: the expression does not hold"
    if check.kind == "required":
        return f"{place}: it is missing" if value is None or value in ("", [], {}) else None
    wrong = _wrong(check, value, means) if is_there else None
    return None if wrong is None else f"{place}: {wrong}"


def _wrong(check: CheckSpec, value: JsonValue, means: NodeMeans) -> str | None:
    settings = check.settings
    match check.kind:
        case "length":
            if not isinstance(value, str | list | dict):
                return "it has no length"
            return _outside(len(value), check, "its length is")
        case "range":
            number = number_in(value)
            return "it is no number" if number is None else _outside(number, check, "it is")
        case "pattern":
            pattern = settings.get("pattern")
            fits = means.patterns.fits(pattern, value if isinstance(value, str) else "")
            return None if fits and isinstance(value, str) else f"it does not fit {pattern!r}"
        case "enum":
            allowed = cast("list[JsonValue]", settings["values"])
            return None if identity(value) in map(identity, allowed) else f"it is none of {identity(allowed)}"
        case "type":
            name = settings.get("type")
            return None if has_type(value, str(name)) else f"it is not of the type {name}"
        case "schema":
            schema = cast("dict[str, JsonValue]", settings["schema"])
            return "; ".join(means.schemas.problems(schema, value)) or None
        case _:
            return None


def _outside(number: float, check: CheckSpec, words: str) -> str | None:
    least, most = number_in(check.settings.get("min")), number_in(check.settings.get("max"))
    if least is not None and number < least:
        return f"{words} {text_of(number)}, less than {text_of(least)}"
    if most is not None and number > most:
        return f"{words} {text_of(number)}, more than {text_of(most)}"
    return None


def _expression_holds(check: CheckSpec, seen: Seen, means: NodeMeans, value: JsonValue) -> bool:
    expression = cast("Expression", check.expression)
    if check.path is None:
        return holds(expression, seen, means)
    return holds(expression, replace(seen, item=value), means, value)


def _past(node: GateNode | GuardianNode, seen: Seen) -> Route | None:
    """Return the route of a run that passes: it does not lead to the node for those that do not."""
    if node.on_fail is not OnFail.REDIRECT:
        return None
    return Route(targets=tuple([each for each in seen.successors if each != node.redirect]), reason="passed")


def _stopped(node: GateNode | GuardianNode, why: str, details: dict[str, JsonValue]) -> Evaluated:
    if node.on_fail is OnFail.BLOCK:
        raise NodeFault(FailureClass.BLOCKED, why, details)
    route = None if node.redirect is None else Route(targets=(node.redirect,), reason=why)
    action = node.on_fail.value
    found = {"findings": details["findings"]} if "findings" in details else {}
    return Evaluated(output={"passed": False, "action": action, "message": why, **found}, route=route)
