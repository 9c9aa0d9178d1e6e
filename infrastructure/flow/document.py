"""The form of a workflow as a text: models of pydantic that refuse unknown keys, from which the JSON schema is made.

A node names the code that it calls by `use`. What decides is a text, a path or CEL, or `{use: NAME}` for a function.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from steptrail.domain.flow.nodes import Condition
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import Budget, Cache, FailureName, RetryPolicy
from steptrail.domain.tools import ApprovalRule

_Effect = Literal["read", "idempotent", "keyed", "unsafe"]
_OnFail = Literal["block", "skip", "redirect"]
_Object = dict[str, Any]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, validate_by_name=True)


class UseForm(_Form):
    """A function that the caller brings under this name."""

    use: str


class CelForm(_Form):
    """A CEL expression, also where it could be a path."""

    cel: str


Deciding: TypeAlias = str | UseForm | CelForm


class CaseEntry(_Form):
    """A case of a conditional."""

    when: Deciding
    to: str
    name: str | None = None


class RuleEntry(_Form):
    """A rule of a router: `when` or `conditions`; neither always holds."""

    to: str
    when: Deciding | None = None
    conditions: list[Condition] = []


class CheckEntry(_Form):
    """A check of a guardian."""

    kind: Literal["required", "length", "pattern", "enum", "type", "range", "schema", "expr"]
    path: str | None = None
    min: float | None = None
    max: float | None = None
    pattern: str | None = None
    values: list[Any] | None = None
    type: str | None = None
    schema_: _Object | None = Field(default=None, alias="schema")
    when: Deciding | None = None
    message: str | None = None


class NodeForm(_Form):
    """The settings of every node."""

    id: str
    output: str | None = None
    on_error: Literal["fail", "continue", "record"] | None = None
    continue_on: list[FailureName] = []
    critical: bool = False
    join: Literal["all", "any", "each"] = "all"


class _Trying(_Form):
    retry: RetryPolicy | Annotated[int, Field(ge=1)] = 1
    timeout: float | None = None
    budget: Budget | None = None
    cache: Cache | None = None
    on_unknown: Literal["park", "fail"] | None = None


class _Llm(_Trying):
    kind: Literal["llm"]
    use: str
    prompt: str | None = None
    system: str | None = None
    messages: list[_Object] = []
    schema_: _Object | None = Field(default=None, alias="schema")
    parameters: _Object = {}


class _Tool(_Trying):
    kind: Literal["tool"]
    use: str
    args: _Object = {}
    approval: ApprovalRule | bool = False


class _Agent(_Trying):
    kind: Literal["agent"]
    use: str
    prompt: str
    context: Any = None


class _Flow(_Trying):
    kind: Literal["flow"]
    use: str
    input: Any = None


class _Function(_Trying):
    kind: Literal["function"]
    use: str
    effect: _Effect = "read"


class _Webhook(_Trying):
    kind: Literal["webhook"]
    url: str
    method: str = "POST"
    body: Any = None
    headers: dict[str, str] = {}
    hosts: list[str] = []
    effect: _Effect | None = None


class LlmEntry(_Llm, NodeForm):
    """A model call."""


class ToolEntry(_Tool, NodeForm):
    """A call of a tool."""


class AgentEntry(_Agent, NodeForm):
    """A session of an agent."""


class FlowEntry(_Flow, NodeForm):
    """A run of another workflow."""


class FunctionEntry(_Function, NodeForm):
    """A function."""


class WebhookEntry(_Webhook, NodeForm):
    """An HTTP request."""


class LlmRouterEntry(_Trying, NodeForm):
    """A model that chooses the next node."""

    kind: Literal["llm_router"]
    use: str
    prompt: str
    routes: dict[str, str]
    system: str | None = None
    default: str | None = None
    parameters: _Object = {}


class MapEntry(NodeForm):
    """An inner node for each item of a list."""

    kind: Literal["map"]
    over: str
    node: Annotated[_Llm | _Tool | _Agent | _Flow | _Function | _Webhook, Field(discriminator="kind")]
    concurrency: int = 1
    on_item_error: Literal["fail", "record"] = "fail"
    timeout: float | None = None
    budget: Budget | None = None


class MergeEntry(NodeForm):
    """Branches that meet."""

    kind: Literal["merge"]
    strategy: Literal["json", "concat", "best_score", "all", "function"] = "json"
    conflict: Literal["last", "first", "error"] = "last"
    deep: bool = False
    vars_only: bool = False
    key: str | None = None
    separator: str = "\n"
    use: str | None = None


class TransformEntry(NodeForm):
    """A value that is computed."""

    kind: Literal["transform"]
    operation: Literal["pick", "omit", "rename", "flatten", "combine", "template", "stringify", "parse", "expr"]
    source: str | None = None
    keys: list[str] | None = None
    names: dict[str, str] | None = None
    paths: list[str] | None = None
    deep: bool | None = None
    separator: str | None = None
    template: str | None = None
    expression: Deciding | None = None


class FilterEntry(NodeForm):
    """Items of a list that are kept."""

    kind: Literal["filter"]
    operation: Literal["top_n", "threshold", "dedupe", "type", "match", "exclude", "expression"]
    over: str
    by: str | None = None
    n: int | None = None
    order: Literal["desc", "asc"] | None = None
    min: float | None = None
    max: float | None = None
    types: list[str] | None = None
    pattern: str | None = None
    values: list[Any] | None = None
    expression: Deciding | None = None


class RuleRouterEntry(NodeForm):
    """Rules that choose the next node."""

    kind: Literal["rule_router"]
    rules: list[RuleEntry]
    allow_multiple: bool = False
    default: str | None = None


class ConditionalEntry(NodeForm):
    """Expressions that choose the next node."""

    kind: Literal["conditional"]
    cases: list[CaseEntry]
    evaluate: Literal["first", "all"] = "first"
    default: str | None = None


class GateEntry(NodeForm):
    """A gate."""

    kind: Literal["gate"]
    when: Deciding | None = None
    on_fail: _OnFail = "block"
    redirect: str | None = None
    message: str | None = None


class GuardianEntry(NodeForm):
    """Checks of values."""

    kind: Literal["guardian"]
    checks: list[CheckEntry]
    on_fail: _OnFail = "block"
    redirect: str | None = None


class HumanEntry(NodeForm):
    """A question to a person."""

    kind: Literal["human"]
    type: Literal["approval", "choice", "edit", "input", "review"] = "approval"
    prompt: str = ""
    show: list[str] = []
    options: list[str] = []
    schema_: _Object | None = Field(default=None, alias="schema")
    expires: float | None = None
    on_timeout: Literal["fail", "default", "skip"] = "fail"
    default: Any = None
    on_reject: Literal["continue", "fail"] = "continue"


class NoopEntry(NodeForm):
    """A node that does nothing."""

    kind: Literal["noop"]


NodeEntry: TypeAlias = Annotated[
    LlmEntry
    | ToolEntry
    | AgentEntry
    | FlowEntry
    | FunctionEntry
    | WebhookEntry
    | LlmRouterEntry
    | MapEntry
    | MergeEntry
    | TransformEntry
    | FilterEntry
    | RuleRouterEntry
    | ConditionalEntry
    | GateEntry
    | GuardianEntry
    | HumanEntry
    | NoopEntry,
    Field(discriminator="kind"),
]


class EdgeEntry(_Form):
    """An edge, or several from one place or to one place. A text such as `a > b > c` is a chain."""

    source: str | list[str]
    target: str | list[str]
    when: Literal["done", "success", "error"] | None = None
    loop: bool = False


class FlowDocument(_Form):
    """A workflow. `resources` is the name under which the caller brings what opens the resources of a run."""

    steptrail: Literal["flow/v1"]
    name: str
    description: str | None = None
    result: str | None = None
    entry: str | list[str] = []
    options: RunOptions | None = None
    resources: str | None = None
    nodes: list[NodeEntry]
    edges: list[str | EdgeEntry] = []
