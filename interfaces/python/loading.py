"""From AGENT, as on the command line, to an agent or a workflow: `FILE.py[:NAME]`, `package.module[:NAME]`, a text.

The reference comes from the caller and never from the store: what is stored must not choose which code runs.
"""

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_text
from steptrail.interfaces.python.flow_files import BroughtCode, flow_of_file, is_flow_file
from steptrail.interfaces.python.flow_or_agent import is_flow, is_flow_builder
from steptrail.interfaces.python.modules import in_words, load_module, loggers_kept, run_of_theirs
from steptrail.runtime.agent.agent import Agent, AnyAgent, is_agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.log_raised import log_raised

if TYPE_CHECKING:
    from steptrail.runtime.flow.graph_builder import GraphBuilder
    from steptrail.runtime.flow.workflow import BuiltWorkflow

_log = logging.getLogger("steptrail")

_DEFAULT_NAME, _NAME_OF_A_FLOW = "agent", "flow"
_FORMS = "FILE.py[:NAME] or package.module[:NAME]"

_Source: TypeAlias = Union[
    AnyAgent, AgentBuilder[Any], "GraphBuilder", "BuiltWorkflow", AbstractAsyncContextManager[object]
]
_A_SOURCE = "an Agent, an AgentBuilder, a workflow, or an async context manager that yields one"


def load_runnable(
    reference: str, use: BroughtCode | None = None
) -> "AbstractAsyncContextManager[AnyAgent | BuiltWorkflow]":
    """Return the block that has the agent or the workflow which `reference` names.

    That is an `Agent`, an `AgentBuilder`, a `Workflow`, built or not, an async context manager that yields one (for
    what needs something open, such as an MCP server), or a callable that returns any of these. Without a name it is
    called `agent`, or `flow`. Its `locator` is the reference. A file of YAML or JSON is a workflow, whose code
    is what `use` brings. Raises `ConfigurationError` that says what is wrong, here or where the
    block is entered or left.
    """
    return _block(_named(reference, use), reference)


def _named(reference: str, use: BroughtCode | None) -> "AnyAgent | BuiltWorkflow | AbstractAsyncContextManager[object]":
    if is_flow_file(reference):
        code = use or BroughtCode()
        return replace(flow_of_file(reference, code), use=code.references)
    if use:
        raise ConfigurationError(f"{reference} brings its own code: --use is for a workflow in YAML or JSON")
    target, name = split_reference(reference)
    module = load_module(target, _FORMS, file="agent file")
    if target == reference and not hasattr(module, name) and hasattr(module, _NAME_OF_A_FLOW):
        name = _NAME_OF_A_FLOW
    if not hasattr(module, name):
        raise ConfigurationError(f"{target} has no {name!r}{_instead(module, target)}")
    return _built(_found(getattr(module, name), reference), reference)


def load_agent(reference: str) -> AbstractAsyncContextManager[AnyAgent]:
    """Do what `load_runnable` does, for an agent. Raises `ConfigurationError` for a workflow."""
    found = _named(a_text(reference, "a reference to an agent"), None)
    if is_flow(found):
        raise _no_agent(reference)
    return _of_an_agent(_block(found, reference), reference)


def _no_agent(reference: str) -> ConfigurationError:
    return ConfigurationError(f"{reference} is a workflow: it has to be an agent")


@asynccontextmanager
async def _of_an_agent(
    block: "AbstractAsyncContextManager[AnyAgent | BuiltWorkflow]", reference: str
) -> AsyncGenerator[AnyAgent]:
    async with block as given:
        if not isinstance(given, Agent):
            raise _no_agent(reference)
        yield given


async def close_models(given: "AnyAgent | BuiltWorkflow") -> None:
    """Close the models that an agent calls, or that the nodes of a workflow do.

    One that cannot be closed is logged: it changes nothing about the work that was done with it.
    """
    for close in _closing(given):
        try:
            await close()
        except Exception as error:
            log_raised(_log, error, "a model of %s could not be closed", given.name)


def _closing(given: "AnyAgent | BuiltWorkflow") -> Iterator[Callable[[], Awaitable[None]]]:
    summarises = given.compaction.model if isinstance(given, Agent) and given.compaction is not None else None
    for each in (*given.models, summarises) if isinstance(given, Agent) else given.code.values():
        if is_agent(each) or is_flow(each):
            yield from _closing(each)
        elif (close := getattr(each, "close", None)) is not None and hasattr(each, "infer"):
            yield close


def split_reference(reference: str) -> tuple[str, str]:
    """Return the file or module, and the name in it."""
    target, separator, name = reference.rpartition(":")
    # A drive letter and a folder may hold a colon too; a name holds neither a dot nor a slash.
    if not separator or not name.isidentifier():
        target, name = reference, _DEFAULT_NAME
    if not target:
        raise ConfigurationError(f"{reference!r} names no agent: give {_FORMS}")
    return target, name


def _found(found: object, reference: str) -> _Source:
    if _is_source(found):
        return found
    if not callable(found):
        raise ConfigurationError(
            f"{reference} is {_kind(found)}: it has to be {_A_SOURCE}, or a function returning one"
        )
    made = _made(found, reference)
    if _is_source(made):
        return made
    if inspect.iscoroutine(made):
        made.close()
    raise ConfigurationError(f"{reference} returns {_kind(made)}: it has to return {_A_SOURCE}")


def _is_source(given: object) -> TypeGuard[_Source]:
    return isinstance(given, Agent | AbstractAsyncContextManager) or is_flow(given) or _is_buildable(given)


def _built(found: _Source, reference: str) -> "AnyAgent | BuiltWorkflow | AbstractAsyncContextManager[object]":
    if not _is_buildable(found):
        return cast("AnyAgent | BuiltWorkflow | AbstractAsyncContextManager[object]", found)
    return cast("AnyAgent | BuiltWorkflow", run_of_theirs(found.build, reference))


@asynccontextmanager
async def _block(
    found: "AnyAgent | BuiltWorkflow | AbstractAsyncContextManager[object]", reference: str
) -> "AsyncGenerator[AnyAgent | BuiltWorkflow]":
    is_leaving = False
    try:
        async with AsyncExitStack() as stack:
            if isinstance(found, AbstractAsyncContextManager):
                try:
                    with loggers_kept():
                        entered = await stack.enter_async_context(found)
                except Exception as error:
                    raise ConfigurationError(f"{reference} cannot be entered: {in_words(error)}") from error
                if not _is_source(entered) or isinstance(entered, AbstractAsyncContextManager):
                    said = f"{reference} yields {_kind(entered)}"
                    raise ConfigurationError(f"{said}: it has to yield an Agent, an AgentBuilder or a workflow")
                found = _built(entered, reference)
            yield replace(cast("AnyAgent | BuiltWorkflow", found), locator=reference)
            is_leaving = True
    except Exception as error:
        if not is_leaving:
            raise
        raise ConfigurationError(f"{reference} cannot be left: {in_words(error)}") from error


def _is_buildable(given: object) -> "TypeGuard[AgentBuilder[Any] | GraphBuilder]":
    return isinstance(given, AgentBuilder) or is_flow_builder(given)


def _made(factory: Callable[..., object], reference: str) -> object:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ConfigurationError(f"{reference} cannot be called without arguments: {error}") from error
    except ValueError:
        pass  # a built-in without a signature: calling it tells
    return run_of_theirs(factory, reference)


def _instead(module: ModuleType, target: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Agent) or _is_buildable(value)]
    return f": give {' or '.join(f'{target}:{name}' for name in names)}" if names else ": give FILE.py:NAME"


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
