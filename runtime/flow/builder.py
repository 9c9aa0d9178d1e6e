"""`FlowBuilder`: writes a workflow one node and one edge at a time, and builds what can be run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, Unpack

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow import nodes
from steptrail.runtime.flow import working
from steptrail.runtime.flow.graph_builder import about
from steptrail.runtime.flow.working_builder import WorkingBuilder, checked
from steptrail.runtime.flow.written import Case, Check, Deciding, NodeSettings, Rule, When

OnFailName = nodes.OnFail | Literal["block", "skip", "redirect"]


class FlowBuilder(WorkingBuilder):
    """Writes a workflow, with nodes of all kinds. Services get `Workflow`, which is one that checks their texts."""

    def merge(
        self,
        node_id: str,
        /,
        *,
        strategy: Literal["json", "concat", "best_score", "all", "function"] = "json",
        conflict: Literal["last", "first", "error"] = "last",
        deep: bool = False,
        vars_only: bool = False,
        key: str | None = None,
        separator: str = "\n",
        function: Callable[..., object] | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Bring branches together; see `MergeNode`. A `function` is a strategy of its own."""
        named = "function" if function is not None else strategy
        how = {"deep": deep, "vars_only": vars_only, "key": key, "separator": separator, "function": function}
        return self._decide(node_id, nodes.MergeNode, settings, strategy=named, conflict=conflict, **how)

    def transform(
        self,
        node_id: str,
        operation: Literal["pick", "omit", "rename", "flatten", "combine", "template", "stringify", "parse", "expr"],
        /,
        *,
        source: str | None = None,
        keys: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
        paths: Sequence[str] | None = None,
        deep: bool | None = None,
        separator: str | None = None,
        template: str | None = None,
        expression: When | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Compute a value from the one at the path `source`, or from all variables.

        `pick` and `omit` have `keys`, and `rename` has `names`, old to new. `flatten` makes one list of lists, or one
        object with keys such as `a.b`, by `separator`. `combine` makes one value of those at `paths`, `deep` or not.
        `template` has a `template`, and `expr` an `expression` or function. `stringify` and `parse` write and read
        JSON.
        """
        how = {"keys": keys, "paths": paths, "names": names, "deep": deep, "separator": separator, "template": template}
        own = {"operation": operation, "source": source, "settings": how, "expression": expression}
        return self._decide(node_id, nodes.TransformNode, settings, **own)

    def filter(
        self,
        node_id: str,
        operation: Literal["top_n", "threshold", "dedupe", "type", "match", "exclude", "expression"],
        /,
        *,
        over: str,
        by: str | None = None,
        n: int | None = None,
        order: Literal["desc", "asc"] | None = None,
        min: float | None = None,  # noqa: A002 - as in a check
        max: float | None = None,  # noqa: A002
        types: Sequence[str] | None = None,
        pattern: str | None = None,
        values: Sequence[object] | None = None,
        expression: When | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Keep some items of the list at the path `over`; `by` is the path inside an item, None for the item itself.

        `top_n` keeps the `n` highest numbers, or the lowest with `order="asc"`, and `threshold` those from `min` to
        `max`. `dedupe` keeps the first of equals, and `type` items of these JSON `types`. `match` keeps, and `exclude`
        drops, what fits `pattern` or is one of `values`. `expression` sees `item`; a function gets it.
        """
        how: dict[str, object] = {"by": by, "n": n, "order": order, "min": min, "max": max, "pattern": pattern}
        how |= {"types": types, "values": values}
        own = {"over": over, "operation": operation, "settings": how, "expression": expression}
        return self._decide(node_id, nodes.FilterNode, settings, **own)

    def rule_router(
        self,
        node_id: str,
        rules: Sequence[Rule],
        /,
        *,
        allow_multiple: bool = False,
        default: str | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Choose the next node by rules: the first that holds, or all of them; else `default`, or none."""
        own = {"rules": rules, "allow_multiple": allow_multiple, "default": default}
        return self._decide(node_id, nodes.RuleRouterNode, settings, **own)

    def conditional(
        self,
        node_id: str,
        cases: Sequence[Case],
        /,
        *,
        evaluate: Literal["first", "all"] = "first",
        default: str | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Choose the next node by expressions: the first that holds, or all of them; else `default`, or it fails."""
        return self._decide(node_id, nodes.ConditionalNode, settings, cases=cases, evaluate=evaluate, default=default)

    def gate(
        self,
        node_id: str,
        /,
        *,
        when: When | None = None,
        on_fail: OnFailName = nodes.OnFail.BLOCK,
        redirect: str | None = None,
        message: str | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Let the run pass if `when` holds; without `when` always.

        Else the node fails (`block`), the run goes on all the same (`skip`), or goes on at the node `redirect`.
        """
        own = {"when": when, "on_fail": on_fail, "redirect": redirect, "message": message}
        return self._decide(node_id, nodes.GateNode, settings, **own)

    def guardian(
        self,
        node_id: str,
        checks: Sequence[Check],
        /,
        *,
        on_fail: OnFailName = nodes.OnFail.BLOCK,
        redirect: str | None = None,
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Let the run pass if all checks hold. Its output is what they found."""
        return self._decide(node_id, nodes.GuardianNode, settings, checks=checks, on_fail=on_fail, redirect=redirect)

    def human(
        self,
        node_id: str,
        /,
        *,
        type: Literal["approval", "choice", "edit", "input", "review"] = "approval",  # noqa: A002 - the recorded name
        prompt: str = "",
        show: Sequence[str] = (),
        options: Sequence[str] = (),
        schema: "working.SchemaGiven | None" = None,
        expires: float | None = None,
        on_timeout: Literal["fail", "default", "skip"] = "fail",
        default: object = None,
        on_reject: Literal["continue", "fail"] = "continue",
        **settings: Unpack[NodeSettings],
    ) -> Self:
        """Ask a person. `prompt` is a template, `show` names the variables that the person sees.

        After `expires` seconds `on_timeout` decides. The `default` of an approval is a text: "yes" and "approve" say
        yes, and any other one says no. A rejection is an answer; a gate, or `on_reject="fail"`, makes it a stop.
        """
        with about(node_id):
            if type == "approval" and default is not None and not isinstance(default, str):
                # Not in the node: runs were recorded with such a default, which says no.
                raise ConfigurationError(f'default: Expected "yes", "no" or another text, not {default!r}')
        asked = {"type": type, "prompt": prompt, "show": show, "options": options, "schema": schema}
        told = {"expires": expires, "on_timeout": on_timeout, "default": default, "on_reject": on_reject}
        return self._decide(node_id, nodes.HumanNode, settings, **asked, **told)

    def noop(self, node_id: str, /, **settings: Unpack[NodeSettings]) -> Self:
        """Add a node that does nothing. It can join branches, and be the target of edges."""
        return self._decide(node_id, nodes.NoopNode, settings)

    def _decide(self, node_id: str, kind: type[Any], settings: NodeSettings, /, **own: object) -> Self:
        deciding = Deciding()
        with about(node_id):
            made = {name: value if value is None else deciding.recorded(name, value) for name, value in own.items()}
            node = kind(id=node_id, **made, **checked(settings, NodeSettings))
        return self.add(node, functions=deciding.functions)
