"""The requests of model calls that a log holds as digests only, built again by what built them then."""

from collections.abc import Iterator, Sequence

from steptrail.domain.agent.events import AgentEvent, InferenceStarted
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.inference import ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.agent.request import Requests

__all__ = ["recorded_requests"]


def recorded_requests(session: str, records: Sequence[Recorded[AgentEvent]]) -> Iterator[tuple[int, ModelRequest, str]]:
    """Yield each request that `records` tell of: the index of its `inference.started`, the request, its digest.

    The digest is that of the request as it was built here. Where it is not the recorded one, another version built
    them otherwise, or the log was changed. The deadline of a call is not known any more.
    """
    requests, state, folded = Requests(), initial(session), 0
    for index, record in enumerate(records):
        if not isinstance(record.event, InferenceStarted):
            continue
        state, folded = evolve_all(state, records[folded:index]), index
        if state.agent is not None:
            request = requests.build(state, state.agent)
            yield index, request, requests.digest(request)
