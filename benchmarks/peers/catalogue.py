"""Who is measured beside Steptrail, what is installed for it, and what each makes durable and when.

They do not promise the same things, so a time alone compares little: what a crash may cost stands beside it.
"""

from dataclasses import dataclass

from benchmarks.peers.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Work:
    """The module that does a scenario, told the variant. `variants` says of each what is durable, and when."""

    script: str
    variants: dict[str, str]


@dataclass(frozen=True, slots=True)
class Peer:
    """One library in an environment of its own, and the scenarios in which it takes part."""

    name: str
    packages: tuple[str, ...]
    works: dict[Scenario, Work]


def _ours(script: str, said: str) -> Work:
    return Work(
        script,
        {
            "floor": "plain sqlite3 that writes the rows of Steptrail, commit by commit",
            "full": f"{said}: all of it has reached the disk",
            "normal": f"{said}: it survives a killed process, not a power cut",
        },
    )


OURS = {
    Scenario.AGENT: _ours(
        "benchmarks.peers.run_steptrail",
        "the reply and the start of the tool before it runs; its result, every vote and the next start before the next "
        "model call",
    ),
    Scenario.WORKFLOW: _ours(
        "benchmarks.peers.run_flow_steptrail",
        "the input and the graph before the first node; what a node returned and the start of the next before that "
        "begins; the ending before the caller has it. A crash repeats no finished node, and a tool under way with the "
        "key that it had",
    ),
}

PEERS = (
    Peer(
        "dbos",
        ("dbos>=3.4,<4",),
        {
            Scenario.AGENT: Work(
                "benchmarks.peers.run_dbos",
                {
                    "wal": "what a model call or a tool returned, as soon as it has; no starts, no votes. The file was "
                    "set to a write-ahead log by hand beforehand",
                    "shipped": "the same, on the file as DBOS makes it",
                },
            ),
            Scenario.WORKFLOW: Work(
                "benchmarks.peers.run_flow_dbos",
                {
                    "wal": "the input before the first node, what a node returned before the next begins, the ending; "
                    "no starts: a crash repeats the node under way and no finished one. The file was set to a "
                    "write-ahead log by hand beforehand",
                    "shipped": "the same, on the file as DBOS makes it",
                },
            ),
        },
    ),
    Peer(
        "langgraph",
        ("langgraph>=1.2,<1.3", "langgraph-checkpoint-sqlite>=3.1,<4"),
        {
            Scenario.AGENT: Work(
                "benchmarks.peers.run_langgraph",
                {
                    "default": "a checkpoint with all messages after each node, written while the next one already runs"
                    ": a crash may lose the last",
                    "sync": "the same, and the next node waits for it",
                    "delta": "as sync, but the new messages only, in whole every so often (the delta channel, a beta)",
                },
            ),
            Scenario.WORKFLOW: Work(
                "benchmarks.peers.run_flow_langgraph",
                {
                    "sync": "the input, and after each node what it changed, before the next begins; no starts: a "
                    "crash repeats the node under way and no finished one",
                },
            ),
        },
    ),
    Peer(
        "burr",
        ("apache-burr>=0.43,<0.44",),
        {
            Scenario.AGENT: Work(
                "benchmarks.peers.run_burr",
                {
                    "default": "the whole state after each action; a crash repeats the whole action, with all of its "
                    "tools"
                },
            )
        },
    ),
    Peer(
        "openai-agents",
        ("openai-agents>=0.24,<0.25",),
        {
            Scenario.AGENT: Work(
                "benchmarks.peers.run_openai_agents",
                {
                    "session": "the messages of a turn after the turn: a crash loses the reply and the tools that ran "
                    "in it"
                },
            )
        },
    ),
    Peer(
        "prefect",
        ("prefect>=3.8,<4", "fastapi>=0.139,<0.140"),
        {
            Scenario.WORKFLOW: Work(
                "benchmarks.peers.run_flow_prefect",
                {
                    "ephemeral": "what a task returned, in a file that is not synced, before the next begins; states "
                    "in the database of its server, not synced each time and maybe later than the next begins. A task "
                    "whose result is kept is not repeated if the same flow run is run again",
                },
            ),
        },
    ),
)
"""Temporal and Restate need a server of their own; they are not measured here."""
