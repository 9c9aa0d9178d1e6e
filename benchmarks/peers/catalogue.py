"""Who is measured beside Steptrail, what is installed for it, and what each makes durable and when.

They do not promise the same things, so a time alone compares little: what a crash may cost stands beside it.
"""

from dataclasses import dataclass

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True, slots=True)
class Peer:
    """One library in an environment of its own. `script` is the module that does the work, told the variant.

    `variants` says of each what is durable, and when.
    """

    name: str
    packages: tuple[str, ...]
    script: str
    variants: dict[str, str]


PEERS = (
    Peer(
        "dbos",
        ("dbos>=3.4,<4",),
        "benchmarks.peers.run_dbos",
        {
            "wal": "what a model call or a tool returned, as soon as it has; no starts, no votes. The file was set to "
            "a write-ahead log by hand beforehand",
            "shipped": "the same, on the file as DBOS makes it",
        },
    ),
    Peer(
        "langgraph",
        ("langgraph>=1.2,<1.3", "langgraph-checkpoint-sqlite>=3.1,<4"),
        "benchmarks.peers.run_langgraph",
        {
            "default": "a checkpoint with all messages after each node, written while the next one already runs: a "
            "crash may lose the last",
            "sync": "the same, and the next node waits for it",
            "delta": "as sync, but the new messages only, in whole every so often (the delta channel, a beta)",
        },
    ),
    Peer(
        "burr",
        ("apache-burr>=0.43,<0.44",),
        "benchmarks.peers.run_burr",
        {"default": "the whole state after each action; a crash repeats the whole action, with all of its tools"},
    ),
    Peer(
        "openai-agents",
        ("openai-agents>=0.24,<0.25",),
        "benchmarks.peers.run_openai_agents",
        {"session": "the messages of a turn after the turn: a crash loses the reply and the tools that ran in it"},
    ),
)
"""Temporal and Restate need a server of their own; they are not measured here."""
