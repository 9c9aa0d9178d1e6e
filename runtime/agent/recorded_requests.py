"""Builds the requests of recorded model calls again, because the log holds only their digests."""

from collections.abc import Iterator, Sequence

from steptrail.domain.agent.events import AgentEvent, InferenceStarted
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.inference import ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.agent.request import Requests


def recorded_requests(session: str, records: Sequence[Recorded[AgentEvent]]) -> Iterator[tuple[int, ModelRequest, str]]:
    """Yield each request of `records`: the index of its `inference.started`, the request, and its digest.

    The digest is that of the request as it is built here. If it differs from the recorded one, another version of the
    library built requests differently, or the log was changed. The deadlines of the calls are not known any more.
    """
    requests, state, folded = Requests(), initial(session), 0
    for index, record in enumerate(records):
        if not isinstance(record.event, InferenceStarted):
            continue
        state, folded = evolve_all(state, records[folded:index]), index
        if state.agent is not None:
            request = requests.build(state, state.agent)
            yield index, request, requests.digest(request)
