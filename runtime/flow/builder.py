"""`FlowBuilder`: writes a workflow one node and one edge at a time, and builds what can be run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, Unpack, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow import nodes
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row
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
        deciding = Deciding()
        with about(node_id):
            node = nodes.MergeNode(
                id=node_id,
                strategy="function" if function is not None else strategy,
                conflict=conflict,
                deep=deep,
                vars_only=vars_only,
                key=key,
                separator=separator,
                function=None if function is None else deciding.named(function),
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            rows = {"keys": _row(keys, "keys"), "paths": _row(paths, "paths")}
            given = {**rows, "names": names, "deep": deep, "separator": separator, "template": template}
            node = nodes.TransformNode(
                id=node_id,
                operation=operation,
                source=source,
                settings=_said(given),
                expression=None if expression is None else deciding.expression(expression),
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            rows = {"types": _row(types, "types"), "values": _row(values, "values")}
            given = {"by": by, "n": n, "order": order, "min": min, "max": max, "pattern": pattern, **rows}
            node = nodes.FilterNode(
                id=node_id,
                over=over,
                operation=operation,
                settings=_said(given),
                expression=None if expression is None else deciding.expression(expression),
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            node = nodes.RuleRouterNode(
                id=node_id,
                rules=tuple(deciding.rule(rule) for rule in a_row(rules, "rules")),
                allow_multiple=allow_multiple,
                default=default,
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            node = nodes.ConditionalNode(
                id=node_id,
                cases=tuple(deciding.case(case) for case in a_row(cases, "cases")),
                evaluate=evaluate,
                default=default,
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            node = nodes.GateNode(
                id=node_id,
                when=None if when is None else deciding.expression(when),
                on_fail=cast("nodes.OnFail", on_fail),
                redirect=redirect,
                message=message,
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
        deciding = Deciding()
        with about(node_id):
            node = nodes.GuardianNode(
                id=node_id,
                checks=tuple(deciding.check(check) for check in a_row(checks, "checks")),
                on_fail=cast("nodes.OnFail", on_fail),
                redirect=redirect,
                **checked(settings, NodeSettings),
            )
        return self.add(node, functions=deciding.functions)

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
            node = nodes.HumanNode(
                id=node_id,
                type=type,
                prompt=prompt,
                show=a_row(show, "show"),
                options=a_row(options, "options"),
                schema=working.json_schema(schema),
                expires=expires,
                on_timeout=on_timeout,
                default=cast("JsonValue", default),
                on_reject=on_reject,
                **checked(settings, NodeSettings),
            )
        return self.add(node)

    def noop(self, node_id: str, /, **settings: Unpack[NodeSettings]) -> Self:
        """Add a node that does nothing. It can join branches, and be the target of edges."""
        with about(node_id):
            node = nodes.NoopNode(id=node_id, **checked(settings, NodeSettings))
        return self.add(node)


def _row(given: Sequence[object] | None, what: str) -> list[object] | None:
    """Return the values of a list. Raises `ConfigurationError` for one text, which would be taken for its letters."""
    return None if given is None else [*a_row(given, what)]


def _said(given: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {name: value for name, value in given.items() if value is not None}
