"""The methods of `Workflow` that add nodes which leave the process: calls of models, tools, agents, functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.nodes import MapNode, WorkingNode
from steptrail.domain.flow.policies import OnError, RetryPolicy
from steptrail.domain.kernel.given import a_row
from steptrail.domain.tools import ApprovalRule, ToolEffect
from steptrail.runtime.flow import working
from steptrail.runtime.flow.functions import NodeFunction
from steptrail.runtime.flow.graph_builder import GraphBuilder, about
from steptrail.runtime.flow.workflow import BuiltWorkflow, Code
from steptrail.runtime.flow.written import MapSettings, NodeSettings, TryingSettings

if TYPE_CHECKING:
    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.agent.tool_port import RunnableTool
    from steptrail.runtime.kernel.ports import ModelDriver

_INNER: dict[str, Callable[..., tuple[WorkingNode, Code | None]]] = {
    "tool": working.tool_node,
    "function": working.function_node,
    "model": working.llm_node,
    "agent": working.agent_node,
    "flow": working.flow_node,
    "url": working.webhook_node,
}
"""The functions that make the inner node of a map, by the name of the setting that holds its code."""

_OF_THE_MAP = NodeSettings.__annotations__.keys() | {"timeout", "budget"}
"""The settings of a map that are not those of its inner node."""


class WorkingBuilder(GraphBuilder):
    """Collects nodes that leave the process, and the rest of the graph. `Workflow` adds the other kinds."""

    def llm(
        self,
        node_id: str,
        model: "ModelDriver",
        /,
        *,
        prompt: str | None = None,
        system: str | None = None,
        messages: Sequence[Mapping[str, object]] = (),
        schema: "working.SchemaGiven | None" = None,
        parameters: Mapping[str, object] | None = None,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add a model call. `prompt`, or else `messages`, and `system` are templates.

        With `schema` the answer is JSON that fits it.
        """
        said = {"prompt": prompt, "system": system, "messages": messages, "schema": schema}
        return self._work(node_id, working.llm_node, model, settings, **said, parameters=parameters)

    def tool(
        self,
        node_id: str,
        tool: "RunnableTool",
        /,
        *,
        args: Mapping[str, object] | None = None,
        approval: ApprovalRule | bool | None = None,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add a call of a tool. Texts in `args` are templates; one that is a `{{ path }}` alone is the value itself.

        `approval` has a person approve each call, or none, whatever the tool says.
        """
        return self._work(node_id, working.tool_node, tool, settings, args=args, approval=approval)

    def agent(
        self,
        node_id: str,
        agent: "AnyAgent",
        /,
        *,
        prompt: str,
        context: object = None,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add a session of an agent. `prompt` is the template of its input, `context` what is said of its run."""
        return self._work(node_id, working.agent_node, agent, settings, prompt=prompt, context=context)

    def flow(
        self,
        node_id: str,
        flow: BuiltWorkflow,
        /,
        *,
        input: object = None,  # noqa: A002 - as in `trail.run`
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add a run of another workflow. Texts in `input` are templates, as in the arguments of a tool."""
        return self._work(node_id, working.flow_node, flow, settings, input=input)

    def function(
        self,
        node_id: str,
        function: NodeFunction,
        /,
        *,
        effect: working.EffectName = ToolEffect.READ,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add a function, sync or async, that gets an `Envelope`, or an `Envelope` and a `NodeContext`.

        It returns JSON, or an `Update`. After a crash in the middle it runs again, unless `effect` says what it changes
        in the world.
        """
        return self._work(node_id, working.function_node, function, settings, effect=effect)

    def webhook(
        self,
        node_id: str,
        url: str,
        /,
        *,
        method: str = "POST",
        body: object = None,
        headers: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        effect: working.EffectName | None = None,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Add an HTTP request. `url`, `body` and `headers` are templates.

        Its output is `{"status": 200, "body": ...}`, with the value of a body of JSON and the text of any other; a
        status that is no success fails the node. Only the host that `url` names may be asked, or those of `hosts`.
        `GET` reads; what other methods do is unsafe unless `effect` says otherwise.
        """
        asked = {"method": method, "body": body, "headers": headers, "hosts": hosts, "effect": effect}
        return self._work(node_id, working.webhook_node, url, settings, **asked)

    def llm_router(
        self,
        node_id: str,
        model: "ModelDriver",
        /,
        *,
        prompt: str,
        routes: Mapping[str, str],
        system: str | None = None,
        default: str | None = None,
        parameters: Mapping[str, object] | None = None,
        **settings: Unpack[TryingSettings],
    ) -> Self:
        """Let a model choose the next node. `routes` maps each label that it may say to a node."""
        said = {"prompt": prompt, "routes": routes, "system": system, "default": default}
        return self._work(node_id, working.llm_router_node, model, settings, **said, parameters=parameters)

    def map(
        self,
        node_id: str,
        /,
        *,
        over: str,
        concurrency: int = 1,
        on_item_error: Literal["fail", "record"] = "fail",
        **settings: Unpack[MapSettings],
    ) -> Self:
        """Run a tool, function, model, agent, workflow or request for each item of the list at the path `over`.

        In templates `{{ item }}` and `{{ index }}` stand for the item; a function is told its index, as
        `NodeContext.index`. `retry`, `cache` and `on_unknown` hold for each item. A failed item fails the node, or is
        recorded and None in the list of results.
        """
        with about(node_id):
            outer, inner = dict[str, Any](), dict[str, Any]()
            for name, value in checked(settings, MapSettings).items():
                (outer if name in _OF_THE_MAP else inner)[name.removeprefix("item_")] = value
            given = [name for name in _INNER if name in inner]
            if len(given) != 1:
                raise ConfigurationError(f"a map has one of {', '.join(_INNER)}, not {len(given)} of them")
            try:
                node, code = _INNER[given[0]](node_id, inner.pop(given[0]), **inner)
            except TypeError as error:
                raise ConfigurationError(f"the {given[0]} of the map: {error}") from None
            mapped = MapNode(
                id=node_id, over=over, node=node, concurrency=concurrency, on_item_error=on_item_error, **outer
            )
        return self.add(mapped, code)

    def _work(
        self,
        node_id: str,
        make: Callable[..., tuple[Any, Code | None]],
        code: object,
        settings: TryingSettings,
        **own: object,
    ) -> Self:
        with about(node_id):
            node, brought = make(node_id, code, **own, **checked(settings, TryingSettings))
        return self.add(node, brought)


def checked(settings: Mapping[str, Any], known: type) -> dict[str, Any]:
    """Return the settings of a node as its class takes them. Raises `ConfigurationError` for an unknown one."""
    given = dict(settings)
    if unknown := [name for name in given if name not in known.__annotations__]:
        raise ConfigurationError(f"it has no setting {unknown[0]!r}")
    if isinstance(retry := given.get("retry"), int):
        given["retry"] = RetryPolicy(max_attempts=retry)
    if "continue_on" in given:
        given["continue_on"] = a_row(given["continue_on"], "continue_on")
        if given["continue_on"] and given.get("on_error") == OnError.FAIL:
            raise ConfigurationError("continue_on: it has no effect together with on_error='fail'")
    return given
