"""`fleet`: the wakes that wait with an engine, and the workers that it wakes."""

import argparse
import time

from steptrail.domain.errors import stream_name
from steptrail.domain.instants import seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, engine_of
from steptrail.projections.rendering import few, lasting
from steptrail.runtime.kernel.engine import EngineStatus, TopicStatus, WorkerReport

_MOST_NAMED = 3
"""How many of the sessions of a worker are named in a table."""


def register(commands: Commands) -> None:
    """Add the command."""
    commands.add("fleet", _fleet, "List what waits with the engine, by agent, and what each worker that it wakes does.")


def _fleet(arguments: argparse.Namespace, output: Output) -> None:
    if (engine := engine_of(arguments)) is None:
        why = "`steptrail due` lists what waits for workers that look themselves"
        raise Refusal(f"say which engine wakes the fleet, with --engine or $STEPTRAIL_ENGINE; {why}")

    status = in_store(arguments, lambda trail: trail.fleet(), engine=engine) or EngineStatus(topics={}, workers=())
    now = time.time_ns() // 1000
    if output.as_json:
        output.data(
            {
                "topics": [_topic_data(name, each) for name, each in status.topics.items()],
                "workers": [_worker_data(each) for each in status.workers],
            }
        )
        return
    topics = [
        [
            stream_name(name),
            str(each.waiting),
            "" if each.since is None else f"{lasting(seconds_between(each.since, now))} ago",
            str(each.later),
            "yes" if each.is_served else "no worker has it",
        ]
        for name, each in status.topics.items()
    ]
    output.table(["AGENT", "WAITING", "OLDEST", "LATER", "SERVED"], topics)
    output.line("")
    workers = [
        [
            each.worker,
            f"{lasting(seconds_between(each.seen_at, now))} ago",
            f"{len(each.running)} of {each.concurrency}",
            few([stream_name(stream) for stream in each.running], _MOST_NAMED),
            str(len(each.left)),
            f"{each.wakes}, {each.without_effect} for nothing",
        ]
        for each in status.workers
    ]
    output.table(["WORKER", "SEEN", "BUSY", "SESSIONS", "LEFT", "WAKES"], workers)


def _topic_data(name: str, topic: TopicStatus) -> dict[str, JsonValue]:
    since = None if topic.since is None else to_datetime(topic.since).isoformat()
    kind, _, agent = name.partition(":")
    return {
        "kind": kind,
        "agent": agent,
        "waiting": topic.waiting,
        "waitingSince": since,
        "later": topic.later,
        "isServed": topic.is_served,
    }


def _worker_data(worker: WorkerReport) -> dict[str, JsonValue]:
    return {
        "worker": worker.worker,
        "beganAt": to_datetime(worker.began_at).isoformat(),
        "seenAt": to_datetime(worker.seen_at).isoformat(),
        "concurrency": worker.concurrency,
        "agents": [stream_name(topic) for topic in worker.topics],
        "sessions": [stream_name(stream) for stream in worker.running],
        "left": [stream_name(stream) for stream in worker.left],
        "wakes": worker.wakes,
        "withoutEffect": worker.without_effect,
    }
