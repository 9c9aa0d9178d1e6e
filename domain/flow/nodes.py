"""The nodes of a workflow as they are recorded: one class a kind, without the code that they call.

What a node calls, such as a function, a tool or a model, is brought by who runs the workflow, and is found by the id of
the node. Here is what has to be known to carry a run on and to explain it.
"""

import re
from enum import StrEnum
from typing import Literal

from steptrail.domain.base import BoundedPositive, PositiveSeconds, Settings, Value
from steptrail.domain.errors import InvalidSetting
from steptrail.domain.flow.needs import wrong_setting
from steptrail.domain.flow.policies import Budget, Cache, FailureClass, OnError, OnUnknownOutcome, RetryPolicy
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolEffect, ToolSpec

_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LITERALS = frozenset({"true", "false", "null"})


class Join(StrEnum):
    """The rule by which a node with several edges into it begins."""

    ALL = "all"
    """Once, when nothing that is active can still reach it."""
    ANY = "any"
    """At the first branch that arrives; the others of that round are taken in without another run."""
    EACH = "each"
    """Once for each branch that arrives."""


class Expression(Value, frozen=True, kw_only=True):
    """That which decides: a CEL expression, a path that is looked up in the envelope, or a function by its name.

    The function itself is brought by who runs the workflow. `text` is the source, the path, or `module.QualName`.
    """

    kind: Literal["cel", "path", "function"]
    text: str

    @classmethod
    def of(cls, text: str) -> "Expression":
        """Return the expression that people write as a text: a path if it is one, else CEL."""
        is_path = _PATH.fullmatch(text) is not None and text not in _LITERALS
        return cls(kind="path" if is_path else "cel", text=text)


class NodeBase(Settings, frozen=True, kw_only=True, tag_field="kind"):
    """The settings that all nodes have. `output` is the key under which the result stands in `vars`.

    `retry` is the rule for further tries, and `on_error` is what comes after the last one; None leaves that to the run.
    `continue_on` limits `on_error` to these classes of failures. `critical` means that the run does not tolerate a
    failure of the node. `timeout` is in seconds, over all tries and the waits between them. `cache` keeps results
    within a run. `on_unknown` says how a node goes on that was cut off and may do its work only once.
    """

    id: str
    output: str | None = None
    retry: RetryPolicy = RetryPolicy(max_attempts=1)
    on_error: OnError | None = None
    continue_on: tuple[FailureClass, ...] = ()
    critical: bool = False
    timeout: PositiveSeconds | None = None
    budget: Budget | None = None
    join: Join = Join.ALL
    cache: Cache | None = None
    on_unknown: OnUnknownOutcome | None = None


class LlmNode(NodeBase, tag="llm", frozen=True, kw_only=True):
    """One call of a model. `prompt`, `system` and the texts of `messages` are templates.

    `model` is the name of the model, for people. With `schema` the answer is JSON that fits it. `parameters` go to the
    model with the request.
    """

    retry: RetryPolicy = RetryPolicy()
    timeout: PositiveSeconds | None = 60.0
    model: str = ""
    prompt: str | None = None
    system: str | None = None
    messages: tuple[dict[str, JsonValue], ...] = ()
    schema: dict[str, JsonValue] | None = None
    parameters: dict[str, JsonValue] = {}


class ToolNode(NodeBase, tag="tool", frozen=True, kw_only=True):
    """One call of a tool. The texts in `args` are templates; a text that is one `{{ path }}` alone is the value."""

    retry: RetryPolicy = RetryPolicy()
    timeout: PositiveSeconds | None = 30.0
    tool: ToolSpec
    args: dict[str, JsonValue] = {}

    @property
    def required(self) -> frozenset[str]:
        """The names of the arguments that the tool needs."""
        names = self.tool.parameters.get("required")
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


class AgentNode(NodeBase, tag="agent", frozen=True, kw_only=True):
    """A session of an agent of its own. `agent` is the name of the agent, and `prompt` the template of its input."""

    agent: str
    prompt: str
    context: JsonValue = None


class FlowNode(NodeBase, tag="flow", frozen=True, kw_only=True):
    """A run of another workflow. `flow` is its name; `input` holds templates as the arguments of a tool do."""

    flow: str
    input: JsonValue = None


class FunctionNode(NodeBase, tag="function", frozen=True, kw_only=True):
    """A function of the service. `function` is its name, and `effect` says whether it may run again after a crash."""

    function: str
    effect: ToolEffect = ToolEffect.READ


class WebhookNode(NodeBase, tag="webhook", frozen=True, kw_only=True):
    """One HTTP request. `url`, `body` and `headers` are templates; `hosts` names the hosts that may be asked."""

    timeout: PositiveSeconds | None = 30.0
    url: str
    method: str = "POST"
    body: JsonValue = None
    headers: dict[str, str] = {}
    hosts: tuple[str, ...] = ()
    effect: ToolEffect = ToolEffect.UNSAFE


WorkingNode = LlmNode | ToolNode | AgentNode | FlowNode | FunctionNode | WebhookNode
"""The nodes that leave the process, and that a map can have inside."""


class MapNode(NodeBase, tag="map", frozen=True, kw_only=True):
    """Runs an inner node once for each item of the list at the path `over`, at most `concurrency` at once.

    The result is the list of theirs, in order. A failed item fails the node, or is recorded and None.
    """

    over: str
    node: WorkingNode
    concurrency: BoundedPositive = 1
    on_item_error: Literal["fail", "record"] = "fail"


class MergeNode(NodeBase, tag="merge", frozen=True, kw_only=True):
    """Brings branches together.

    `json` keeps the variables of all, `concat` joins the texts of the variable `key`, `best_score` keeps the branch
    with the highest number in `key`, `all` lists the variables of each branch, and `function` asks a function.
    `conflict` says what becomes of a variable that several branches have changed. `deep` merges objects key by key.
    With `vars_only` the messages and artifacts are those of the first branch. The output of `json` and `best_score`,
    if one is named, holds the variables that the branches have changed.
    """

    strategy: Literal["json", "concat", "best_score", "all", "function"] = "json"
    conflict: Literal["last", "first", "error"] = "last"
    deep: bool = False
    vars_only: bool = False
    key: str | None = None
    separator: str = "\n"
    function: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy in {"concat", "best_score"} and not self.key:
            self.refuse("key", f"Expected the variable that strategy={self.strategy!r} looks at")
        if (self.strategy == "function") is not bool(self.function):
            self.refuse("function", "Expected a function with strategy='function', and None without")


class TransformNode(NodeBase, tag="transform", frozen=True, kw_only=True):
    """Computes a value from the envelope. What `settings` holds depends on `operation`.

    `source` is the path of the value that is changed; None for all variables.
    """

    operation: Literal["pick", "omit", "rename", "flatten", "combine", "template", "stringify", "parse", "expr"]
    source: str | None = None
    settings: dict[str, JsonValue] = {}
    expression: Expression | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_needs(self, "transform", self.operation, self.settings, self.expression)


class FilterNode(NodeBase, tag="filter", frozen=True, kw_only=True):
    """Keeps some items of the list at the path `over`. What `settings` holds depends on `operation`."""

    over: str
    operation: Literal["top_n", "threshold", "dedupe", "type", "match", "exclude", "expression"]
    settings: dict[str, JsonValue] = {}
    expression: Expression | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_needs(self, "filter", self.operation, self.settings, self.expression)


def _check_needs(
    node: NodeBase,
    kind: str,
    operation: str,
    given: dict[str, JsonValue],
    expression: Expression | None,
    place: str = "",
) -> None:
    said = given if expression is None else {**given, "expression": expression.text}
    if (wrong := wrong_setting(kind, operation, said)) is not None:
        raise InvalidSetting(type(node).__name__, f"{place}{wrong[0]}", wrong[1])


class Condition(Value, frozen=True, kw_only=True):
    """A comparison of the value at a path: numbers as floats, all else as text."""

    path: str
    operator: Literal[
        "eq", "neq", "gt", "gte", "lt", "lte", "contains", "starts_with", "ends_with", "exists", "not_exists", "in"
    ] = "eq"
    value: JsonValue = None


class RuleSpec(Value, frozen=True, kw_only=True):
    """A rule of a router: the node `to` runs when all conditions hold, or when the expression does."""

    to: str
    conditions: tuple[Condition, ...] = ()
    when: Expression | None = None


class RuleRouterNode(NodeBase, tag="rule_router", frozen=True, kw_only=True):
    """Chooses the next node by rules: the first that holds, or all with `allow_multiple`; else `default`, or none."""

    critical: bool = True
    rules: tuple[RuleSpec, ...] = ()
    allow_multiple: bool = False
    default: str | None = None


class CaseSpec(Value, frozen=True, kw_only=True):
    """A case of a conditional: the node `to` runs when the expression holds."""

    when: Expression
    to: str
    name: str | None = None


class ConditionalNode(NodeBase, tag="conditional", frozen=True, kw_only=True):
    """Chooses the next node by expressions: the first that holds, or all of them; else `default`, or it fails."""

    critical: bool = True
    cases: tuple[CaseSpec, ...] = ()
    evaluate: Literal["first", "all"] = "first"
    default: str | None = None


class LlmRouterNode(NodeBase, tag="llm_router", frozen=True, kw_only=True):
    """Lets a model choose the next node. `routes` maps each label that the model may say to a node."""

    retry: RetryPolicy = RetryPolicy()
    critical: bool = True
    timeout: PositiveSeconds | None = 30.0
    model: str = ""
    prompt: str = ""
    system: str | None = None
    routes: dict[str, str] = {}
    default: str | None = None
    parameters: dict[str, JsonValue] = {}


class OnFail(StrEnum):
    """The way in which the run goes on when a gate or a guardian does not hold."""

    BLOCK = "block"
    """It fails, with the class `blocked`."""
    SKIP = "skip"
    """The run goes on, and the result says so."""
    REDIRECT = "redirect"
    """The run goes on with another node."""


def _check_redirect(node: "GateNode | GuardianNode") -> None:
    if (node.on_fail is OnFail.REDIRECT) is not bool(node.redirect):
        node.refuse("redirect", "Expected the id of a node with on_fail='redirect', and None without")


class GateNode(NodeBase, tag="gate", frozen=True, kw_only=True):
    """Lets the run pass if `when` holds; without `when` always."""

    critical: bool = True
    when: Expression | None = None
    on_fail: OnFail = OnFail.BLOCK
    redirect: str | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_redirect(self)


class CheckSpec(Value, frozen=True, kw_only=True):
    """A check of the value at a path. What `settings` holds depends on `kind`. `message` says what is wrong."""

    kind: Literal["required", "length", "pattern", "enum", "type", "range", "schema", "expr"]
    path: str | None = None
    settings: dict[str, JsonValue] = {}
    expression: Expression | None = None
    message: str | None = None


class GuardianNode(NodeBase, tag="guardian", frozen=True, kw_only=True):
    """Lets the run pass if all checks hold."""

    critical: bool = True
    checks: tuple[CheckSpec, ...] = ()
    on_fail: OnFail = OnFail.BLOCK
    redirect: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_redirect(self)
        for place, check in enumerate(self.checks):
            given = check.settings if check.path is None else {**check.settings, "path": check.path}
            _check_needs(self, "check", check.kind, given, check.expression, f"checks[{place}].")


class HumanNode(NodeBase, tag="human", frozen=True, kw_only=True):
    """Asks a person. `prompt` is a template, and `show` names the variables that the person sees.

    `expires` is in seconds; after that `on_timeout` decides. `default` is the answer that is taken then, or None.
    """

    critical: bool = True
    type: Literal["approval", "choice", "edit", "input", "review"] = "approval"
    prompt: str = ""
    show: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    schema: dict[str, JsonValue] | None = None
    expires: PositiveSeconds | None = None
    on_timeout: Literal["fail", "default", "skip"] = "fail"
    default: JsonValue = None
    on_reject: Literal["continue", "fail"] = "continue"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.type == "choice") is not bool(self.options):
            self.refuse("options", "Expected the options of a choice, and none of another type")
        if self.on_timeout == "default" and self.default is None:
            self.refuse("default", "Expected the answer that is taken when nobody answers")
        if self.on_timeout != "default" and self.default is not None:
            self.refuse("default", "Expected on_timeout='default' beside it, because it is taken nowhere else")
        if self.on_timeout != "fail" and self.expires is None:
            self.refuse("expires", f"Expected seconds, because on_timeout={self.on_timeout!r} needs them")
        if self.type == "choice" and self.on_timeout == "default" and self.default not in self.options:
            self.refuse("default", "Expected one of the options")


class NoopNode(NodeBase, tag="noop", frozen=True, kw_only=True):
    """Does nothing. It can join branches, and be the target of edges."""


Node = (
    WorkingNode
    | MapNode
    | MergeNode
    | TransformNode
    | FilterNode
    | RuleRouterNode
    | ConditionalNode
    | LlmRouterNode
    | GateNode
    | GuardianNode
    | HumanNode
    | NoopNode
)
"""A node of any kind. `kind` stands in its stored form."""
