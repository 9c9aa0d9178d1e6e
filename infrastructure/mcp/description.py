"""Make the recorded spec of a tool from the server's description and the caller's settings.

A server's annotations are hints: they choose the default effect class and no more, and the caller has the last word.
The schema is the server's, unchanged.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_types import Tool

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolSettings:
    """Your settings for one tool of a server. What is left out is the server's word, or the default of `@tool`.

    `name` is the one that the model uses, without a prefix. `timeout` is in seconds per try. `retry` tries a failed
    call again, but not one of an unsafe tool that may have taken effect.
    """

    name: str | None = None
    description: str | None = None
    effect: ToolEffect | None = None
    on_unknown: OnUnknown = OnUnknown.TELL
    timeout: float | None = None
    approval: ApprovalRule | bool = False
    concurrent: bool | None = None
    retry: ToolRetry | int | None = None
    max_calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which tools of a server an agent gets, and how they are called. Names are the server's."""

    prefix: str = ""
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    settings: Mapping[str, McpToolSettings] = field(default_factory=dict[str, McpToolSettings])
    timeout: float | None = None
    trust_hints: bool = False


def specs_of(
    server: str, listed: "Iterable[Tool]", selection: Selection, unreadable: Mapping[str, str] = MappingProxyType({})
) -> dict[str, ToolSpec]:
    """Return the selected tools under the server's names, sorted by these.

    A server may list them in another order each time, and an agent would be another one then. `unreadable` is what is
    wrong with further tools, by name. Raises `ConfigurationError` for a selected name that the server does not have,
    and for a tool that cannot be read or called.
    """
    by_name: dict[str, Tool] = {}
    twice: set[str] = set()
    for tool in listed:
        if by_name.setdefault(tool.name, tool) != tool:
            twice.add(tool.name)
    names = by_name.keys() | unreadable.keys()
    include = frozenset(names) if selection.include is None else selection.include
    if unknown := sorted((include | selection.exclude | selection.settings.keys()) - names):
        known = ", ".join(sorted(names)) or "none"
        raise ConfigurationError(f"the MCP server {server!r} has no tool {unknown[0]!r}; its tools are: {known}")
    chosen = include - selection.exclude
    faults = {name: f"cannot be read: {why}" for name, why in unreadable.items()}
    faults |= dict.fromkeys(twice, "is listed twice, and a call would not say which")
    if wrong := sorted(faults.keys() & chosen):
        problem = f"its tool {wrong[0]!r} {faults[wrong[0]]}"
        raise ConfigurationError(f"the MCP server {server!r}: {problem}; leave it out with `exclude`")
    specs: dict[str, ToolSpec] = {}
    taken: dict[str, str] = {}
    for name in sorted(chosen):
        spec = specs[name] = _spec(server, by_name[name], selection)
        if (other := taken.setdefault(spec.name, name)) != name:
            both = f"its tools {other!r} and {name!r} would both be called {spec.name!r}"
            raise ConfigurationError(f"the MCP server {server!r}: {both}; give one a name in `settings`")
    return specs


def _spec(server: str, tool: "Tool", selection: Selection) -> ToolSpec:
    said = selection.settings.get(tool.name, McpToolSettings())
    try:
        return ToolSpec(
            name=said.name or selection.prefix + _UNFIT.sub("_", tool.name),
            description=(tool.description or tool.title or "") if said.description is None else said.description,
            parameters=tool.input_schema,
            effect=said.effect or (_hinted(tool) if selection.trust_hints else ToolEffect.UNSAFE),
            on_unknown=said.on_unknown,
            takes_context=False,
            timeout=selection.timeout if said.timeout is None else said.timeout,
            approval=ApprovalRule() if said.approval is True else said.approval or None,
            concurrent=said.concurrent,
            retry=ToolRetry(attempts=said.retry) if isinstance(said.retry, int) else said.retry,
            max_calls=said.max_calls,
        )
    except InvalidSetting as error:
        advice = "leave it out with `exclude`, or say otherwise in `settings`"
        raise ConfigurationError(
            f"the MCP server {server!r}: its tool {tool.name!r}: {error.problem}; {advice}"
        ) from error


def _hinted(tool: "Tool") -> ToolEffect:
    hints = tool.annotations
    if hints is not None and hints.read_only_hint:
        return ToolEffect.READ
    return ToolEffect.IDEMPOTENT if hints is not None and hints.idempotent_hint else ToolEffect.UNSAFE
