"""The form of an answer, and of the tools, in a request, as the protocols of OpenAI and Anthropic share it."""

from collections.abc import Callable

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode, OutputSpec
from steptrail.domain.tools import ToolSpec


def asked_of_the_provider(request: ModelRequest) -> OutputSpec | None:
    """Return the form to which the provider is to keep the reply of this call; None when there is none."""
    return request.output if request.output_mode in {OutputMode.NATIVE, OutputMode.LAST} else None


def form_of(output: OutputSpec) -> dict[str, JsonValue]:
    """Return the name and the schema as OpenAI's protocols take them."""
    return {**named(output), "schema": output.json_schema, "strict": output.is_strict}


def named(told: ToolSpec | OutputSpec) -> dict[str, JsonValue]:
    """Return the name of a tool or an answer, with its description if it has one."""
    return {"name": told.name, **({"description": told.description} if told.description else {})}


def is_strict(spec: ToolSpec, request: ModelRequest) -> bool:
    """Tell whether a tool is the one of the answer, and the provider is to keep to its schema."""
    output = request.output if request.output_mode is OutputMode.TOOL else None
    return output is not None and output.is_strict and spec.name == output.name


def offered(request: ModelRequest, render: Callable[..., JsonValue]) -> dict[str, JsonValue]:
    """Return the tools of a request, each as `render` makes it, and their choice, as OpenAI's protocols take them."""
    if not request.tools:
        return {}
    tools: list[JsonValue] = [render(spec, is_strict=is_strict(spec, request)) for spec in request.tools]
    parallel = request.parallel_tool_calls
    said: dict[str, JsonValue] = {} if parallel is None else {"parallel_tool_calls": parallel}
    return {"tools": tools, "tool_choice": request.tool_choice, **said}
