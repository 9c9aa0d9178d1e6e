"""Answers from the log whether recorded runs would have ended otherwise with other settings. No model is called."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import ConfigurationError, CorruptRecord, SessionErased, stream_name
from steptrail.domain.instants import Datetime
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.given import a_flag
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.interfaces.python.naming import stream_named
from steptrail.interfaces.python.other_question import question_of
from steptrail.interfaces.python.store_reader import StoreReader
from steptrail.projections.other_settings import WhatIfQuestion
from steptrail.projections.what_if import WhatIf, WhatIfAnswer, WhatIfRow
from steptrail.projections.what_if_fold import WhatIfFold
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.history import pages
from steptrail.runtime.kernel.kinds import not_found

_PAGE = 500


class Auditor(StoreReader):
    """Reads all streams of a store, and asks of recorded runs what other settings would have changed."""

    async def what_if(
        self,
        *names: str,
        limits: Limits | Mapping[str, object] | None = None,
        error_policy: ErrorPolicy | None = None,
        like: AnyAgent | None = None,
        trust_tools: bool = False,
        status: str | None = None,
        stop_reason: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        since: Datetime | None = None,
        until: Datetime | None = None,
        crashed: bool = False,
    ) -> WhatIf:
        """Return what other settings would have changed in recorded executions: exactly, or that it is unknown.

        The executions are those of the sessions with these `names`; without any, of all sessions that the other
        arguments find, which are those of `runs`. `limits` replaces the settings that it names, such as
        `{"max_steps": 20}`; one that is named stops runs, also where it was in shadow. `error_policy` replaces the
        whole policy. `like` is an agent, whose limits, policy and criteria stand in the place of the recorded ones, and
        nothing else of it; without it the recorded votes of criteria stand that are not built in.

        Each execution is asked about by itself, from its recorded beginning: runs below it keep their settings. A tool
        that gets a context could look at the limits in it, so what comes after its call is unknown, unless you
        `trust_tools` not to.

        Raises `ConfigurationError` for settings that cannot be meant, and for a workflow, and `SessionNotFound`.
        """
        page = partial(
            self.runs,
            status=status,
            stop_reason=stop_reason,
            agent=agent,
            parent=parent,
            since=since,
            until=until,
            crashed=crashed,
            limit=_PAGE,
        )
        is_filtered = crashed or {status, stop_reason, agent, parent, since, until} != {None}
        if names and is_filtered:
            raise ConfigurationError("a what-if is about sessions by their names, or about those that filters find")
        question = question_of(limits, error_policy, like, trusts_tools=a_flag(trust_tools, "trust_tools"))
        rows: list[WhatIfRow] = []
        for stream in dict.fromkeys(map(stream_named, names)):
            if not stream.startswith(STREAM_PREFIX):
                raise ConfigurationError(f"{stream_name(stream)} is a workflow, and a what-if is about agents alone")
            rows += await self._answers(stream, question)
        after: str | None = None
        while not names:
            found = await page(after=after)
            for run in found:
                rows += await self._answers(run.stream, question)
            if len(found) < _PAGE:
                break
            after = stream_name(found[-1].stream)
        if not names and not is_filtered:
            erased = await self._env.store.index(IndexQuery(erased=True))
            rows += [_unread(run.stream, "it was erased") for run in erased]
        return WhatIf(rows)

    async def _answers(self, stream: str, question: WhatIfQuestion) -> Sequence[WhatIfRow]:
        """Return the answers about the executions of one session; about anything else, why there are none."""
        if not stream.startswith(STREAM_PREFIX):
            return [_unread(stream, "it is a run of a workflow, and a what-if is about agents alone")]
        store, at, damage = self._env.store, None, None
        while True:
            fold, version = WhatIfFold(id_of(stream), question), 0
            try:
                async for records, _ in pages(AGENT, store, stream, at=at):
                    version += len(records)
                    with collector_off():
                        fold.add(records)
                    await asyncio.sleep(0)
            except SessionErased as error:
                return [_unread(stream, str(error))]
            except CorruptRecord as error:
                damage = str(error)
                if error.stream != stream or error.version < 2:
                    return [_unread(stream, damage)]
                at = error.version - 1  # what comes before it can be read
                continue
            if not version:
                raise await not_found(store, stream)
            return fold.rows(damage)


def _unread(stream: str, why: str) -> WhatIfRow:
    return WhatIfRow(session_id=stream_name(stream), answer=WhatIfAnswer.UNKNOWN, why=why)
