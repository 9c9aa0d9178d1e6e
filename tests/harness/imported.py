"""What the processes that fork others import first: it takes longer than most of what a test does with it.

A command of a workflow took 0.26 s of processor time, and 0.03 where all of this was imported before it was forked.
"""

COMMANDS = (
    "psycopg",
    "pydantic._internal._dataclasses",
    "pydantic.plugin._loader",
    "steptrail.infrastructure.store.postgres.store",
    "steptrail.infrastructure.store.sqlite.opening",
    "steptrail.interfaces.cli.agent_kind",
    "steptrail.interfaces.cli.agent_why",
    "steptrail.interfaces.cli.doctor",
    "steptrail.interfaces.cli.flow_kind",
    "steptrail.interfaces.cli.main",
    "steptrail.interfaces.python.flow",
    "steptrail.interfaces.python.running_flows",
    "steptrail.messages",
    "steptrail.models",
    "steptrail.projections.agent_kind",
    "steptrail.projections.flow_kind",
    "steptrail.runtime.agent.kind",
    "steptrail.runtime.flow.kind",
    "steptrail.testing",
    "steptrail.tools",
    "steptrail.workflow",
)
"""What agents and workflows are made of, the stores, and what a command imports when it is given."""
