"""The blocking twin of a handle on the runs of a workflow. Imported when the first one is asked for."""

from steptrail.infrastructure.portal import Portal
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.sync import SyncFollowing
from steptrail.interfaces.python.twins import Twin, blocking, fetched, made


class SyncFlow(Twin[Flow]):
    """`Flow`, blocking."""

    def __init__(self, portal: Portal, flow: Flow) -> None:
        super().__init__(portal, flow)
        self.stream_id, self.id = flow.stream_id, flow.id

    resume = blocking(Flow.resume)
    retry = blocking(Flow.retry)
    requeue = blocking(Flow.requeue)
    pause = blocking(Flow.pause)
    unpause = blocking(Flow.unpause)
    stop = blocking(Flow.stop)
    settle = blocking(Flow.settle)
    answer = blocking(Flow.answer)
    approve = blocking(Flow.approve)
    deny = blocking(Flow.deny)
    step = blocking(Flow.step)
    score = blocking(Flow.score)
    scores = blocking(Flow.scores)
    state = blocking(Flow.state)
    file = blocking(Flow.file)
    result = blocking(Flow.result)
    events = blocking(Flow.events)
    history = blocking(Flow.history)
    why = blocking(Flow.why)
    draw = blocking(Flow.draw)
    fork = fetched(Flow.fork, lambda portal, flow: SyncFlow(portal, flow))
    follow = made(Flow.follow, SyncFollowing)
