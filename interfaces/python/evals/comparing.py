"""Has another agent run what recorded sessions were asked, asks judges, and records what they say as scores.

Each recorded session has one session beside it, whose id follows from both and from the agent. So a comparison that is
made again goes on where it was: what has ended is not run again, and what was judged is not judged again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from steptrail.domain.agent.commands import Start
from steptrail.domain.agent.ids import checked_session_id
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_flag, a_kind_of, a_row, a_text, a_whole, for_the_record
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolEffect
from steptrail.interfaces.python.evals.judging import (
    ComparisonJudge,
    ComparisonJudges,
    JudgeFunction,
    answer_of,
    as_score,
    asked_of_agent,
    named_judges,
)
from steptrail.interfaces.python.evals.recorded import ComparedSession, NotCompared, compared_session
from steptrail.interfaces.python.evals.report import ComparedPair, ComparedRun, ComparisonReport, Score
from steptrail.interfaces.python.flow_or_agent import an_agent
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.agent import Agent, AnyAgent, is_agent
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.cancellation import is_asked_to_end
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.log_raised import log_raised, said_by

_log = logging.getLogger("steptrail.evals")
_HARMLESS = frozenset({ToolEffect.READ, ToolEffect.IDEMPOTENT})


async def compare(
    agent: Agent[Any, Any],
    sessions: Iterable[Session],
    judges: ComparisonJudges,
    *,
    name: str = "",
    by: str = "compare",
    at_once: int = 4,
    repeats_effects: bool = False,
) -> ComparisonReport:
    """Have `agent` answer the first input of each session in a session of its own, and judges compare both results.

    A judge is a function `(original, candidate)`, plain or async, or an agent, which is shown the input and both
    answers; it answers with a truth value, a number, a label, or a `Score` with a comment. Above 0.5 the `agent` wins.
    What it says is a score of the new run, under the name of the judge, `by` whom is said. The same comparison again
    goes on where it was, and pays nothing twice; another `name` begins anew. At most `at_once` sessions are worked on
    at the same moment. A session that cannot be compared, and a judge that raises, are told in the report, and the
    traceback is logged; the rest goes on.

    The tools of the agent really run. So one whose tools are not all `read` or `idempotent`, or that has agents or
    workflows below it, is refused, unless it `repeats_effects`. Raises `ConfigurationError` for it, and for what is no
    agent, no session or no judge.
    """
    comparing = _Comparing(
        an_agent(agent),
        named_judges(judges),
        a_text(name, "the name of a comparison"),
        for_the_record(by, "by"),
        asyncio.Semaphore(a_whole(at_once, "`at_once`", least=1)),
    )
    if not a_flag(repeats_effects, "`repeats_effects`"):
        _refuse_effects(comparing.agent)
    given = [a_kind_of(Session, each, "a session to compare") for each in a_row(sessions, "sessions")]
    handles = {each.id: each for each in given}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(comparing.pair(each)) for each in handles.values()]
    return ComparisonReport.of([task.result() for task in tasks], comparing.judges)


def _refuse_effects(agent: AnyAgent) -> None:
    for tool in agent.snapshot.tools:
        if tool.effect not in _HARMLESS or tool.runs_children is not None:
            what = f"is {tool.effect.value}" if tool.runs_children is None else "runs what is not seen here"
            raise ConfigurationError(
                f"tool {tool.name!r} of agent {agent.name!r} {what}, and a comparison would run it once more for each "
                "session: give the agent a harmless one, or say `repeats_effects=True`"
            )


@dataclass(frozen=True, slots=True)
class _Comparing:
    agent: AnyAgent
    judges: Mapping[str, ComparisonJudge]
    name: str
    by: str
    few: asyncio.Semaphore

    async def pair(self, session: Session) -> ComparedPair:
        """Compare one session. Raises nothing but what ends the program."""
        async with self.few:
            pair = ComparedPair(session=session.id)
            try:
                recorded = await compared_session(session)
                pair = replace(pair, original=ComparedRun.of(recorded.result))
                candidate, result = await self._run(session, recorded)
                pair = replace(pair, candidate=ComparedRun.of(result))
                if not result.status.is_over:
                    raise NotCompared(f"{candidate.id}: {(await candidate.why()).verdict}")
            except NotCompared as why:
                return replace(pair, problems={"": str(why)})
            except Exception as error:
                log_raised(_log, error, "session %s was not compared", session.id)
                return replace(pair, problems={"": said_by(error)})
            return await self._judged(pair, candidate, recorded, result)

    async def _run(self, session: Session, recorded: ComparedSession) -> tuple[Session, RunResult[Any]]:
        """Have the agent answer, or go on with the answer, or return the one that is stored."""
        snapshot = self.agent.snapshot
        once: list[JsonValue] = [session.stream_id, snapshot.name, snapshot.fingerprint, self.name]
        chosen = checked_session_id(f"compare-{digest_of(once)[:32]}")
        start = Start(
            input=recorded.message,
            agent=snapshot,
            worker=session.environment.worker,
            by=self.by,
            history=recorded.history,
            metadata={**recorded.metadata, "compared_with": session.id},
            context=recorded.asked.context if self.agent.context is not None else None,
            key="compare",
        )
        result = await SessionControl(session.environment, chosen).run(self.agent, start)
        return Session(session.environment, chosen), result

    async def _judged(
        self, pair: ComparedPair, candidate: Session, recorded: ComparedSession, result: RunResult[Any]
    ) -> ComparedPair:
        given = {
            each.name: Score(each.value, each.comment)
            for each in await candidate.scores()
            if each.by == self.by and each.step is None and each.execution == result.state.fold.executions
        }
        scores, judging, problems = dict[str, Score](), list[ComparedRun](), dict[str, str]()
        for name, judge in self.judges.items():
            before = given.get(name)
            try:
                if is_agent(judge):
                    judged = await self._asked(candidate, name, judge, recorded, result)
                    judging.append(ComparedRun.of(judged))
                    score = before or as_score(judged.raise_for_stop().output)
                else:
                    score = before or await answer_of(cast("JudgeFunction", judge), recorded.result, result)
                if before is None:
                    await candidate.score(
                        name, score.value, by=self.by, comment=score.comment, execution=result.execution_id
                    )
                scores[name] = score
            except (Exception, asyncio.CancelledError) as error:
                if is_asked_to_end():
                    raise
                log_raised(_log, error, "judge %s failed on session %s", name, candidate.id)
                problems[name] = said_by(error)
        return replace(pair, scores=scores, judging=judging, problems=problems)

    async def _asked(
        self, candidate: Session, name: str, judge: AnyAgent, recorded: ComparedSession, result: RunResult[Any]
    ) -> RunResult[Any]:
        """Ask a judge that is an agent, in a session of its own."""
        env: Environment = candidate.environment
        chosen = checked_session_id(f"{candidate.id}-{digest_of([name, judge.snapshot.fingerprint])[:8]}")
        text = asked_of_agent(recorded.message.in_words, recorded.result, result)
        start = Start(
            input=Message.user(text),
            agent=judge.snapshot,
            worker=env.worker,
            by=self.by,
            metadata={**recorded.metadata, "judges": candidate.id},
        )
        return await SessionControl(env, chosen).run(judge, start)
