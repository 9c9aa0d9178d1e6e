"""A pool of processes pickles what a call raised, and hands it to who waits for the call."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import CommandRejected, SteptrailError
from steptrail.infrastructure.mcp.errors import McpServerUnavailable
from steptrail.infrastructure.models.errors import ModelUnreachable
from steptrail.testing import ScriptedModel


def all_below(kind: type[SteptrailError]) -> Iterator[type[SteptrailError]]:
    for each in kind.__subclasses__():
        yield each
        yield from all_below(each)


def unpickled(error: SteptrailError) -> SteptrailError:
    came: SteptrailError = pickle.loads(pickle.dumps(error))  # noqa: S301
    return came


@pytest.mark.parametrize("again", [unpickled, copy.copy])
def test_an_error_comes_out_as_it_went_in(again: Callable[[SteptrailError], SteptrailError]) -> None:
    assert {CommandRejected, McpServerUnavailable, ModelUnreachable} <= set(all_below(SteptrailError))
    for kind in all_below(SteptrailError):
        error = kind.__new__(kind)
        error.args = ("somebody says what is wrong",)
        vars(error)["why"] = "a part that it keeps"
        error.add_note("said where it passed")
        came = again(error)
        assert (type(came), str(came), vars(came)) == (kind, str(error), vars(error))


def asked_for_something_else(url: str) -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel([])).build()
    with Steptrail.open_sync(url) as trail:
        trail.start(agent, "One thing.", session="s")
        trail.start(agent, "Another thing.", session="s")


def test_a_refusal_in_a_pool_of_processes_reaches_who_waits_and_the_pool_goes_on(tmp_path: Path) -> None:
    """Such a pool was broken by it, for all others too, and one of `multiprocessing` waited for ever."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(CommandRejected) as refused:
            pool.submit(asked_for_something_else, f"sqlite:///{tmp_path / 'runs.db'}").result()
        assert (refused.value.command, refused.value.session) == ("run", "s")
        assert pool.submit(str, 1).result() == "1"
