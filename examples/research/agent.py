"""The agents: one that leads, and a reader that it sends to one file at a time, each in a session of its own.

A note is the result of a tool call, so the log keeps it: what a run has found is there whatever ends it. A report whose
citations do not hold is sent back before it is the end of the run.
"""

from examples.research.citations import Citation, problems
from examples.research.library import Library
from steptrail import Agent, AgentBuilder, ErrorPolicy, RunResult, ToolEffect, tool
from steptrail.hooks import Critique, SelfCritic
from steptrail.models import ModelDriver
from steptrail.tools import SubagentTool

__all__ = ["lead", "notes", "reader"]

CITE = 'Cite as "the exact words" (file:line), the words taken from one line.'
PROMPT = f"""
You report on what a folder of files says about a topic. Search first, then send the reader to each file that matters,
all in one reply. Keep what you will use with take_note, then write a short report. {CITE}
"""


def reader(model: ModelDriver, library: Library) -> Agent:
    """Return the agent that reads one file."""
    return (
        AgentBuilder("reader")
        .with_model(model)
        .with_system_prompt(f"Read the one file that you are told to, and answer in two or three sentences. {CITE}")
        .with_tools(library.search, library.read)
        .with_max_steps(6)
        .with_error_policy(ErrorPolicy.ignore_tool_errors())
        .build()
    )


def lead(model: ModelDriver, reader: Agent, library: Library, *, max_steps: int) -> Agent:
    """Return the agent that writes the report."""

    @tool(effect=ToolEffect.READ)
    def take_note(quote: str, file: str, line: int) -> str:
        """Keep words that stand in a line of a file."""
        if not library.holds(quote, file, line):
            raise ValueError(f"line {line} of {file} does not say {quote!r}: read it again")
        return str(Citation(quote, file, line))

    def judge(task: str, answer: str) -> Critique:
        wrong = problems(answer, library)
        return Critique(approved=not wrong, feedback="\n".join(wrong))

    return (
        AgentBuilder("researcher")
        .with_model(model)
        .with_system_prompt(PROMPT)
        .with_tools(library.list_files, library.search, take_note)
        .with_tools(SubagentTool(reader, description="Have one file read: name the file, and what to look for."))
        .with_capability(SelfCritic(judge, max_iterations=3))
        .with_max_steps(max_steps)
        .with_max_tokens(300_000)
        .with_error_policy(ErrorPolicy.ignore_tool_errors())
        .build()
    )


def notes(result: RunResult) -> list[str]:
    """Return the notes of a run, also of one that came to no report."""
    made = [call for step in result.state.steps for call in step.tool_executions if call.name == "take_note"]
    return [str(call.result) for call in made if call.status == "completed"]
