"""The parts of a workflow that people write besides nodes: texts and functions that decide, and settings of nodes.

The recorded forms are in `domain/flow/nodes.py`. A function is recorded by its name, and kept beside the definition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.nodes import CaseSpec, CheckSpec, Condition, Expression, Join, RuleSpec
from steptrail.domain.flow.policies import Budget, Cache, FailureGiven, OnError, OnUnknownOutcome, RetryPolicy
from steptrail.domain.kernel.given import a_plain_function, a_row
from steptrail.domain.tools import ApprovalRule, ToolSpec
from steptrail.runtime.flow.functions import NodeFunction
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.flow.working import EffectName, SchemaGiven

if TYPE_CHECKING:
    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.agent.tool_port import RunnableTool
    from steptrail.runtime.kernel.ports import ModelDriver

When: TypeAlias = str | Expression | Callable[[Any], object]
"""That which decides: a CEL expression, a path such as `vars.plan.ready`, or a function that gets an `Envelope`.

A path that is missing or false, as Python sees it, does not hold.
"""


class NodeSettings(TypedDict, total=False):
    """The settings of every node; see `steptrail.domain.flow.nodes`."""

    output: str
    on_error: OnError | Literal["fail", "continue", "record"]
    continue_on: Iterable[FailureGiven]
    critical: bool
    join: Join | Literal["all", "any", "each"]


class TryingSettings(NodeSettings, total=False):
    """The settings of a node that leaves the process. `retry` may be the number of tries in all."""

    retry: RetryPolicy | int
    timeout: float | None
    budget: Budget
    cache: Cache
    on_unknown: OnUnknownOutcome | Literal["park", "fail"]


class MapSettings(TryingSettings, total=False):
    """The settings of a map: those of its inner node, one of `tool`, `function`, `model`, `agent`, `flow`, `url` too.

    `timeout` and `budget` are for all items together, `item_timeout` and `item_budget` for one.
    """

    item_timeout: float | None
    item_budget: Budget
    tool: "RunnableTool"
    function: NodeFunction
    model: "ModelDriver"
    agent: "AnyAgent"
    flow: BuiltWorkflow
    url: str
    args: Mapping[str, object]
    approval: ApprovalRule | bool
    effect: EffectName
    prompt: str
    system: str
    messages: Sequence[Mapping[str, object]]
    schema: "SchemaGiven"
    parameters: Mapping[str, object]
    context: object
    input: object
    method: str
    body: object
    headers: Mapping[str, str]
    hosts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a conditional: the node `to` runs when `when` holds. `name` is for people."""

    when: When
    to: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a router: the node `to` runs when `when` or all of the conditions hold; None always holds."""

    when: When | Condition | Sequence[Condition] | None
    to: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a guardian, on the value at `path`.

    `required`: there is a value, and it is no empty text, list or object. `length` of a text or a list, and `range` of
    a number, by `min` and `max`, both included. `pattern` is a regular expression that is found in a text. `enum`: one
    of `values`. `type`: the name of a JSON type. `schema` is a JSON schema. `expr`: `when` holds, where `item` is the
    value; a function gets it. All but `required` and `expr` let a missing value pass. `message` says what is wrong.
    """

    kind: Literal["required", "length", "pattern", "enum", "type", "range", "schema", "expr"]
    path: str | None = None
    _: KW_ONLY
    min: float | None = None
    max: float | None = None
    pattern: str | None = None
    values: Sequence[object] | None = None
    type: str | None = None
    schema: Mapping[str, object] | None = None
    when: When | None = None
    message: str | None = None


class Deciding:
    """The functions that decide in one node, each under the name by which it is recorded."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., object]] = {}

    def named(self, function: Callable[..., object]) -> str:
        """Keep a function and return its name. The second of two with one name, such as of lambdas, is `name#2`.

        Raises `ConfigurationError` for a tool, and for what is no plain function.
        """
        a_plain_function(function, "what decides")
        if isinstance(spec := getattr(function, "spec", None), ToolSpec):
            raise ConfigurationError(f"{spec.name!r} is a tool, and what decides is a function of the envelope")
        given = function_name(function)
        name, number = given, 1
        while self.functions.get(name, function) is not function:
            number += 1
            name = f"{given}#{number}"
        self.functions[name] = function
        return name

    def expression(self, when: When) -> Expression:
        """Return the recorded form of what decides. Raises `ConfigurationError`."""
        if isinstance(when, Expression):
            return when
        if isinstance(when, str):
            return Expression.of(when)
        if callable(when):
            return Expression(kind="function", text=self.named(when))
        raise ConfigurationError(f"what decides is a text or a function, not {when!r}")

    def case(self, case: Case) -> CaseSpec:
        """Return the recorded form of a case. Raises `ConfigurationError`."""
        if not isinstance(case, Case):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a case is a `Case(...)` of steptrail.workflow, not {type(case).__name__}")
        return CaseSpec(when=self.expression(case.when), to=case.to, name=case.name)

    def rule(self, rule: Rule) -> RuleSpec:
        """Return the recorded form of a rule. Raises `ConfigurationError`."""
        if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a rule is a `Rule(...)` of steptrail.workflow, not {type(rule).__name__}")
        given = rule.when
        if given is None:
            return RuleSpec(to=rule.to)
        if isinstance(given, Condition):
            return RuleSpec(to=rule.to, conditions=(given,))
        if isinstance(given, str | Expression) or callable(given):
            return RuleSpec(to=rule.to, when=self.expression(given))
        return RuleSpec(to=rule.to, conditions=a_row(given, "the conditions of a rule"))

    def check(self, check: Check) -> CheckSpec:
        """Return the recorded form of a check. Raises `ConfigurationError`."""
        if not isinstance(check, Check):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a check is a `Check(...)` of steptrail.workflow, not {type(check).__name__}")
        names = ("min", "max", "pattern", "values", "type", "schema")
        given = {name: getattr(check, name) for name in names if getattr(check, name) is not None}
        if "values" in given:
            given["values"] = [*a_row(given["values"], "the values of a check")]
        when = None if check.when is None else self.expression(check.when)
        return CheckSpec(kind=check.kind, path=check.path, settings=given, expression=when, message=check.message)
