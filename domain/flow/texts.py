"""The texts of nodes, that is templates, expressions, schemas and patterns, and the faults in them.

Each is named by the place at which people write it, such as `checks[0].when`. Only what can never work is an error: a
variable that no node writes may be brought by the run.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from steptrail.domain.flow import nodes
from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.kinds.people import default_answer, wrong_in
from steptrail.domain.flow.kinds.port import MissingMeans, NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import ROOTS
from steptrail.domain.flow.kinds.templates import is_path, places_in
from steptrail.domain.json_value import JsonValue

TEMPLATES: Final[Mapping[type[nodes.Node], tuple[str, ...]]] = {
    nodes.AgentNode: ("prompt", "context"),
    nodes.FlowNode: ("input",),
    nodes.HumanNode: ("prompt",),
    nodes.LlmNode: ("prompt", "system", "messages"),
    nodes.LlmRouterNode: ("prompt", "system"),
    nodes.ToolNode: ("args",),
    nodes.WebhookNode: ("url", "headers", "body"),
}
"""Class of a node -> its fields that are templates, or hold some."""

_PATHS: Final[Mapping[type[nodes.Node], str]] = {
    nodes.FilterNode: "over",
    nodes.MapNode: "over",
    nodes.TransformNode: "source",
}
"""Class of a node -> its field that is a path, and no template."""

_OF_ITEMS: Final = frozenset({"item", "index"})
_CUTOFF: Final = 0.75
"""How alike a word is to a root that it is taken for a misspelt one."""
_SHOWN: Final = 80


class _Deciding(NamedTuple):
    path: str
    expression: nodes.Expression | None
    is_condition: bool = True


def text_faults(node: nodes.Node, path: str, written: Collection[str], means: NodeMeans) -> Iterator[Diagnostic]:
    """Yield what is wrong with the texts of the node at a path; `written` are the variables that nodes write."""
    yield from _of_paths(node, path, written)
    yield from _of_templates(node, path, written)
    yield from _of_what_is_shown(node, path, written)
    if isinstance(node, nodes.MapNode):
        yield from _of_means(node.node, f"{path}.node", means)
    yield from _of_means(node, path, means)


def _of_paths(node: nodes.Node, path: str, written: Collection[str]) -> Iterator[Diagnostic]:
    """Yield what is wrong with the paths of a node; where a value is needed, an unknown name fails in the run."""
    for place, text in _paths(node):
        where, root = f"the {place} of {node.id!r}", text.partition(".")[0]
        if "{{" in text:
            why = f"{where} is a path, and no template: {_shown(text)}"
            yield fault("FL-111", f"{path}.{place}", why, "leave out the braces")
        elif place not in _PATHS.values() and root not in ROOTS and root not in written:
            yield _unknown(f"{path}.{place}", f"{where} says {_shown(text)}, and no node writes {root!r}", root)


def _paths(node: nodes.Node) -> Iterator[tuple[str, str]]:
    name = _PATHS.get(type(node))
    if name is not None and (text := getattr(node, name)) is not None:
        yield name, text
    inside, cache = ("node.", node.node.cache) if isinstance(node, nodes.MapNode) else ("", node.cache)
    yield from ((f"{inside}cache.key[{place}]", text) for place, text in enumerate(cache.key if cache else ()))
    match node:
        case nodes.RuleRouterNode(rules=rules):
            for at, rule in enumerate(rules):
                yield from ((f"rules[{at}].conditions[{n}].path", each.path) for n, each in enumerate(rule.conditions))
        case nodes.GuardianNode(checks=checks):
            yield from ((f"checks[{at}].path", each.path) for at, each in enumerate(checks) if each.path is not None)
        case _:
            return


def _of_what_is_shown(node: nodes.Node, path: str, written: Collection[str]) -> Iterator[Diagnostic]:
    """Yield the names of `show` that are no variable: nothing would be shown for them. The run may bring one."""
    for place, name in enumerate(node.show if isinstance(node, nodes.HumanNode) else ()):
        if name in written:
            continue
        bare = name.strip("{} ").removeprefix("vars.")
        root = bare.partition(".")[0]
        is_path = bare != name or root in ROOTS or root in written
        near = [root] if is_path and root not in ROOTS else get_close_matches(root, written, 1, _CUTOFF)
        why = f"the show of {node.id!r} says {_shown(name)}, and no node writes a variable of this name"
        advice = f"name the whole variable: {near[0]!r}" if near else "name the output of a node"
        yield fault("FL-112", f"{path}.show[{place}]", why, advice, is_warning=not is_path)


def _of_templates(node: nodes.Node, path: str, written: Collection[str]) -> Iterator[Diagnostic]:
    inner, there = (node.node, f"{path}.node") if isinstance(node, nodes.MapNode) else (node, path)
    items = _OF_ITEMS if isinstance(node, nodes.MapNode) else frozenset[str]()
    if isinstance(node, nodes.TransformNode) and node.source is not None:
        items = frozenset({"item"})
    for place, template in _templates(inner):
        for text, is_closed in places_in(template):
            where = f"the {place} of {node.id!r}"
            root = text.partition(".")[0]
            if not is_closed:
                why = f"{where} opens {{{{ and does not close it: {_shown('{{' + text)}"
                advice = "close it with }}, or bring braces that are meant so in a variable"
                yield fault("FL-111", f"{there}.{place}", why, advice)
            elif not is_path(text):
                why = f"{where} has no path in {_shown('{{' + text + '}}')}: a template has no logic"
                yield fault("FL-111", f"{there}.{place}", why, "say a path such as `input.id`, or compute it in a node")
            elif root in _OF_ITEMS and root not in items:
                why = f"{where} says {_shown(text)}, and {root!r} stands for something in the node of a map alone"
                yield fault("FL-112", f"{there}.{place}", why, "say the path of the value")
            elif root not in ROOTS and root not in written:
                yield _unknown(f"{there}.{place}", f"{where} says {_shown(text)}, and no node writes {root!r}", root)


def _unknown(path: str, why: str, root: str) -> Diagnostic:
    brought = f"a variable that the run brings is `vars.{root}`"
    near = get_close_matches(root.lower(), ROOTS, 1, _CUTOFF)
    advice = f"did you mean {near[0]!r}? {brought}" if near else brought
    return fault("FL-112", path, why, advice, is_warning=not near)


def _templates(node: nodes.Node) -> Iterator[tuple[str, str]]:
    if isinstance(node, nodes.TransformNode):
        if node.operation == "template":
            yield from _texts("template", node.settings.get("template"))
        return
    for name in TEMPLATES.get(type(node), ()):
        yield from _texts(name, getattr(node, name))


def _texts(place: str, value: JsonValue | tuple[JsonValue, ...]) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield place, value
        case dict():
            for key, item in value.items():
                yield from _texts(f"{place}.{key}", item)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _texts(f"{place}[{index}]", item)
        case _:
            return


def _of_means(node: nodes.Node, path: str, means: NodeMeans) -> Iterator[Diagnostic]:
    """Yield what is wrong with what is not ours to read."""
    for place, expression, is_condition in expressions_of(node):
        if expression is not None and expression.kind == "cel":
            try:
                means.expressions.check(expression.text, is_condition=is_condition)
            except NodeFault as wrong:
                yield _wrong("FL-106", node, path, place, wrong)
    for place, schema in _schemas(node):
        try:
            means.schemas.problems(schema, None)
        except NodeFault as wrong:
            yield _wrong("FL-113", node, path, place, wrong, "give a JSON schema that refers to no other")
    for place, pattern in _patterns(node):
        try:
            means.patterns.fits(pattern, "")
        except NodeFault as wrong:
            yield _wrong("FL-114", node, path, place, wrong)
    if isinstance(node, nodes.WebhookNode):
        try:
            means.webhooks.check_sends()
        except MissingMeans as wrong:
            yield _wrong("FL-115", node, path, "url", wrong)
    if isinstance(node, nodes.HumanNode) and node.on_timeout == "default":
        try:
            problem = wrong_in(default_answer(node), node, means.schemas)
        except NodeFault:
            return  # its schema is told already
        if problem is not None:
            why = f"the default of {node.id!r} is no answer: {problem}"
            yield fault("FL-110", f"{path}.default", why, "give one that a person could give")


def _wrong(
    code: str, node: nodes.Node, path: str, place: str, wrong: NodeFault, advice: str | None = None
) -> Diagnostic:
    if isinstance(wrong, MissingMeans):  # it says itself what to do
        code, advice = "FL-115", None
    return fault(code, f"{path}.{place}", f"the {place} of {node.id!r}: {wrong.message}", advice)


def expressions_of(node: nodes.Node) -> Iterator[_Deciding]:
    """Yield what decides in a node, each with its place in it."""
    match node:
        case nodes.GateNode(when=when):
            yield _Deciding("when", when)
        case nodes.ConditionalNode(cases=cases):
            yield from (_Deciding(f"cases[{place}].when", case.when) for place, case in enumerate(cases))
        case nodes.RuleRouterNode(rules=rules):
            yield from (_Deciding(f"rules[{place}].when", rule.when) for place, rule in enumerate(rules))
        case nodes.GuardianNode(checks=checks):
            yield from (_Deciding(f"checks[{place}].when", check.expression) for place, check in enumerate(checks))
        case nodes.FilterNode(expression=expression):
            yield _Deciding("expression", expression)
        case nodes.TransformNode(expression=expression):
            yield _Deciding("expression", expression, is_condition=False)
        case _:
            return


def _schemas(node: nodes.Node) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    match node:
        case nodes.LlmNode(schema=dict(schema)) | nodes.HumanNode(schema=dict(schema)):
            yield "schema", schema
        case nodes.GuardianNode(checks=checks):
            for place, check in enumerate(checks):
                if check.kind == "schema" and isinstance(given := check.settings.get("schema"), dict):
                    yield f"checks[{place}].schema", given
        case _:
            return


def _patterns(node: nodes.Node) -> Iterator[tuple[str, JsonValue]]:
    match node:
        case nodes.GuardianNode(checks=checks):
            for place, check in enumerate(checks):
                if check.kind == "pattern":
                    yield f"checks[{place}].pattern", check.settings.get("pattern")
        case nodes.FilterNode(operation="match" | "exclude", settings={"pattern": pattern}):
            yield "pattern", pattern
        case _:
            return


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
