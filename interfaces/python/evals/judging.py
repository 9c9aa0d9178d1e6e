"""Judges: functions and agents that compare the answer of another agent with the recorded one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_function
from steptrail.domain.shared.scores import score_name
from steptrail.domain.tools import result_text
from steptrail.interfaces.python.evals.report import Score
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.thread_calls import beside_the_loop

JudgeAnswer: TypeAlias = Score | bool | int | float | str
"""How the answer of a judge may be given."""

JudgeFunction: TypeAlias = Callable[[RunResult[Any], RunResult[Any]], JudgeAnswer | Awaitable[JudgeAnswer]]
"""A judge is given the recorded result, then the other one."""

ComparisonJudge: TypeAlias = JudgeFunction | AnyAgent

ComparisonJudges: TypeAlias = Mapping[str, ComparisonJudge] | Sequence[ComparisonJudge]


def named_judges(given: ComparisonJudges) -> dict[str, ComparisonJudge]:
    """Return the judges by the names of their scores: those of their agents and functions, where none are given.

    Raises `ConfigurationError` for what is no judge, for a name that is none of a score, and for one that two have.
    """
    pairs = given.items() if isinstance(given, Mapping) else [(_name(each), each) for each in given]
    named = dict[str, ComparisonJudge]()
    for name, judge in pairs:
        if score_name(name) in named:
            raise ConfigurationError(f"two judges are named {name!r}: name them by a mapping")
        named[name] = judge if is_agent(judge) else a_function(judge, f"judge {name!r}", "original", "candidate")
    if not named:
        raise ConfigurationError("a comparison needs a judge")
    return named


def _name(judge: object) -> str:
    name = judge.name if is_agent(judge) else getattr(judge, "__name__", "")
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise ConfigurationError(f"a judge of the class {type(judge).__name__} has no name: name it by a mapping")
    return name


async def answer_of(judge: JudgeFunction, original: RunResult[Any], candidate: RunResult[Any]) -> Score:
    """Ask a function. One that is not async is called on a thread, so that it may block."""
    said: Any
    if iscoroutinefunction(judge) or iscoroutinefunction(getattr(judge, "__call__", None)):  # noqa: B004 - its kind
        said = judge(original, candidate)
    else:
        said = await beside_the_loop(lambda: judge(original, candidate), name="steptrail-judge")
    return as_score(await cast("Awaitable[object]", said) if isawaitable(said) else said)


def as_score(said: object) -> Score:
    """Return the answer of a judge as a score. Raises `ConfigurationError` for what is none."""
    if isinstance(said, Score):
        return said
    if isinstance(said, bool | int | float | str):
        return Score(said)
    raise ConfigurationError(f"a judge answers with a Score, a truth value, a number or a label: {type(said).__name__}")


def asked_of_agent(question: str, original: RunResult[Any], candidate: RunResult[Any]) -> str:
    """Return what an agent is asked that is a judge: the input, and both answers."""
    parts = {"input": question, "original": _answer(original), "candidate": _answer(candidate)}
    return "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in parts.items())


def _answer(result: RunResult[Any]) -> str:
    said: JsonValue = result.output_json if result.state.answers_in_a_type else result.state.output
    return f"({result.status.value}, without an answer)" if said is None else result_text(said)
