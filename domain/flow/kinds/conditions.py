"""Conditions: whether an expression, a path or a function holds, and the comparisons of rules."""

from collections.abc import Mapping
from inspect import isawaitable

from steptrail.domain.copies import own
from steptrail.domain.errors import NotStorable
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans, without_code
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.values import number_in, text_of
from steptrail.domain.flow.nodes import Condition, Expression
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import storable

_CEL_ROOTS = ("vars", "input", "item", "index", "errors")


def holds(expression: Expression, seen: Seen, means: NodeMeans, *given: object) -> bool:
    """Tell whether an expression holds. A path holds when its value is true, as Python sees it.

    A function is called with `given`, or else with the envelope. Raises `NodeFault`, and what a function raises.
    """
    match expression.kind:
        case "path":
            return bool(seen.find(expression.text)[1])
        case "function":
            return bool(called(expression.text, means, *(given or (seen.envelope(),))))
        case "cel":
            return bool(
                means.expressions.evaluate(expression.text, variables_of(seen, expression.text), is_condition=True)
            )


def value_of(expression: Expression, seen: Seen, means: NodeMeans, *given: object) -> JsonValue:
    """Return the value of an expression; of a path at which there is nothing, None. Raises as `holds` does."""
    match expression.kind:
        case "path":
            return seen.find(expression.text)[1]
        case "function":
            try:
                return storable(called(expression.text, means, *(given or (seen.envelope(),))))
            except NotStorable as error:
                raise NodeFault(FailureClass.VALIDATION, f"{expression.text} returned {error}") from None
        case "cel":
            return means.expressions.evaluate(expression.text, variables_of(seen, expression.text), is_condition=False)


def variables_of(seen: Seen, source: str) -> Mapping[str, JsonValue]:
    """Return the variables that a CEL expression can name, without those that it does not."""
    return {name: seen.root(name) for name in _CEL_ROOTS if name in source}


def called(name: str, means: NodeMeans, *given: object) -> object:
    """Return what a function returns for copies of what is given.

    Raises `NodeFault` of the class `config` if nobody brought it, or it is async.
    """
    if (function := means.functions.get(name)) is None:
        raise without_code(f"the function {name}", ", ".join(means.functions) or "nothing")
    result: object = function(*map(own, given))
    if isawaitable(result):
        getattr(result, "close", lambda: None)()  # or Python warns that it was never awaited
        raise NodeFault(FailureClass.CONFIG, f"the function {name} is async, and what decides is not")
    return result


def compares(condition: Condition, seen: Seen) -> bool:
    """Tell whether a comparison holds: two numbers are compared as floats, all else as text.

    Where there is nothing at the path, only `neq` and `not_exists` hold.
    """
    is_there, value = seen.find(condition.path)
    match condition.operator:
        case "exists":
            return is_there
        case "not_exists":
            return not is_there
        case "neq":
            return not (is_there and _equal(value, condition.value))
        case _ if not is_there:
            return False
        case "eq":
            return _equal(value, condition.value)
        case "gt":
            return _order(value, condition.value) > 0
        case "gte":
            return _order(value, condition.value) >= 0
        case "lt":
            return _order(value, condition.value) < 0
        case "lte":
            return _order(value, condition.value) <= 0
        case "contains":
            return _contains(value, condition.value)
        case "starts_with":
            return text_of(value).startswith(text_of(condition.value))
        case "ends_with":
            return text_of(value).endswith(text_of(condition.value))
        case "in":
            return _contains(condition.value, value)


def _order(left: JsonValue, right: JsonValue) -> int:
    numbers = number_in(left), number_in(right)
    if numbers[0] is not None and numbers[1] is not None:
        return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])
    texts = text_of(left), text_of(right)
    return (texts[0] > texts[1]) - (texts[0] < texts[1])


def _equal(left: JsonValue, right: JsonValue) -> bool:
    return _order(left, right) == 0


def _contains(whole: JsonValue, part: JsonValue) -> bool:
    match whole:
        case list():
            return any(_equal(item, part) for item in whole)
        case dict():
            return text_of(part) in whole
        case _:
            return text_of(part) in text_of(whole)
