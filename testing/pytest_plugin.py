"""The pytest plugin: a trail on a store of the test's own, and runs that are recorded once and replayed ever after.

pytest loads it by itself where Steptrail is installed. Importing it needs pytest; no other module of the package does.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.domain.base import full_form
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.infrastructure.portal import refuse_inside_a_loop
from steptrail.interfaces.python.flow_or_agent import is_flow
from steptrail.interfaces.python.recording import Recording
from steptrail.interfaces.python.redaction import redact, redacted_value
from steptrail.interfaces.python.sync import SyncSteptrail
from steptrail.interfaces.python.trail import Steptrail
from steptrail.interfaces.python.twins import BlockingClosing
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.given import a_context, a_message, an_agent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.type_variables import ContextT, OutputT
from steptrail.testing.difference import difference_of_values
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.replay import replay
from steptrail.testing.replay_model import Match

_OPTION = "--steptrail-record"
_SESSION = "recorded"
_LONGEST = 150
"""Characters of the name of a file; systems take 255, and what is added stands behind them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--steptrail-record`, and the setting `steptrail_redact`."""
    parser.getgroup("steptrail").addoption(
        _OPTION,
        action="store_true",
        help="run the agents of tests that use steptrail_cassette for real, and record what they do",
    )
    parser.addini(
        "steptrail_redact",
        "keys whose values are taken out of recorded arguments and results of tools",
        type="args",
        default=[],
    )


class TestTrail(BlockingClosing):
    """A trail on a store of its own. `url` is the address of the store, for other processes and for async code."""

    __test__ = False

    def __init__(self, url: str) -> None:
        self.url = url
        self._trail: SyncSteptrail | None = None

    @property
    def trail(self) -> SyncSteptrail:
        """The blocking trail, opened when it is first asked for."""
        if self._trail is None:
            self._trail = Steptrail.open_sync(self.url, durability="normal")
        return self._trail

    def run(
        self,
        agent: Agent[OutputT, ContextT],
        input: str | Message,  # noqa: A002 - as in `Steptrail.run`
        *,
        session: str | None = None,
        context: ContextT | None = None,
    ) -> RunResult[OutputT]:
        """Answer an input, and return where that ended."""
        return self.trail.run(agent, input, session=session, context=context)

    def recording(self, session: str) -> Recording:
        """Return what is stored of a session."""
        return Recording(session, self.trail.session(session).history())

    def close(self) -> None:
        """Close the trail, if it was opened."""
        if self._trail is not None:
            self._trail.close()


class Cassettes:
    """The runs of one test: for real and recorded with `--steptrail-record`, replayed from the recordings without.

    The files stand in `cassettes/`, beside the test, one for each run in the order of the runs.
    """

    def __init__(self, trail: TestTrail, first: Path, *, test: str, records: bool, redacted: list[str]) -> None:
        self._trail, self._first, self._test = trail, first, test
        self._records, self._redacted = records, redacted
        self._runs = 0

    def run(
        self,
        agent: Agent[OutputT, ContextT],
        input: str | Message,  # noqa: A002 - as in `Steptrail.run`
        *,
        context: ContextT | None = None,
        match: Match = "strict",
    ) -> RunResult[OutputT]:
        """Answer an input in a session of its own, and return where that ended.

        A replay asks neither the model nor the tools. It raises `ReplayMismatch` when the input, the context or a
        request is not what was recorded, and fails the test when there is no recording. Raises `ConfigurationError` in
        an event loop, and for a workflow, which cannot be replayed.
        """
        refuse_inside_a_loop()
        if is_flow(agent):
            raise ConfigurationError("a cassette records an agent, and no workflow: `steptrail_session` has a trail")
        given, said = a_message(input), a_context(an_agent(agent), context)
        self._runs += 1
        path = self._first if self._runs == 1 else self._first.with_stem(f"{self._first.stem}-{self._runs}")
        if self._records:
            session = f"{_SESSION}-{self._runs}"
            result = self._trail.run(agent, given, session=session, context=context)
            redact(self._trail.recording(session), self._redacted).save(path)
            return result
        again = f"`pytest {_OPTION} '{self._test}'`"
        if not path.exists():
            pytest.fail(
                f"there is no cassette {path}: {again} runs the test for real once and records it", pytrace=False
            )
        try:
            recording = Recording.load(path)
            began = recording.started
            _compare("input", full_form(began.input), full_form(given))
            _compare("context", began.context, redacted_value(said, recording.redacted))
            return asyncio.run(replay(agent, recording, match=match)).result
        except ReplayMismatch as mismatch:
            mismatch.add_note(f"The cassette is {path}. If the change is meant, {again} records it again.")
            raise


def _compare(what: str, recorded: JsonValue, now: JsonValue) -> None:
    if recorded != now:
        found = difference_of_values(recorded, now)
        raise ReplayMismatch(f"the {what} is not the recorded one. First difference: {found}")


def _file_name(test: pytest.Item) -> str:
    """Return the name of a test's first cassette, which is no other test's of the same file."""
    classes = [each.name for each in test.listchain() if isinstance(each, pytest.Class)]
    name = ".".join([*classes, test.name.replace("[", "-", 1).removesuffix("]")])
    fits = re.sub(r"[^A-Za-z0-9._=+-]+", "-", name)[:_LONGEST]
    return fits if fits == name else f"{fits}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@pytest.fixture
def steptrail_session(tmp_path: Path) -> Iterator[TestTrail]:
    """A trail on a store of the test's own, in its temporary folder."""
    with TestTrail(f"sqlite:///{tmp_path / 'steptrail.db'}") as made:
        yield made


@pytest.fixture
def steptrail_cassette(request: pytest.FixtureRequest, steptrail_session: TestTrail) -> Cassettes:
    """The recorded runs of this test."""
    test: pytest.Item = request.node
    return Cassettes(
        steptrail_session,
        test.path.parent / "cassettes" / test.path.stem / f"{_file_name(test)}.jsonl",
        test=test.nodeid,
        records=bool(test.config.getoption(_OPTION)),
        redacted=list(test.config.getini("steptrail_redact")),
    )
