"""What the processes that fork others import first: it takes longer than most of what a test does with it.

A command of a workflow took 0.26 s of processor time, and 0.03 where all of this was imported before it was forked.
"""

COMMANDS = (
    "concurrent.futures.thread",
    "psycopg",
    "pydantic._internal._dataclasses",
    "pydantic.plugin._loader",
    "steptrail.domain.pydantic_form",
    "steptrail.infrastructure.flow.document",
    "steptrail.infrastructure.store.postgres.store",
    "steptrail.infrastructure.store.sqlite.opening",
    "steptrail.infrastructure.views.opening",
    "steptrail.infrastructure.views.own",
    "steptrail.interfaces.cli.agent_kind",
    "steptrail.interfaces.cli.agent_why",
    "steptrail.interfaces.cli.doctor",
    "steptrail.interfaces.cli.flow_kind",
    "steptrail.interfaces.cli.main",
    "steptrail.interfaces.python.flow",
    "steptrail.interfaces.python.running_flows",
    "steptrail.interfaces.python.views_of_runs",
    "steptrail.messages",
    "steptrail.models",
    "steptrail.projections.agent_kind",
    "steptrail.projections.flow_kind",
    "steptrail.projections.runs_view.view",
    "steptrail.runtime.agent.kind",
    "steptrail.runtime.flow.kind",
    "steptrail.testing",
    "steptrail.tools",
    "steptrail.workflow",
    "yaml",
)
"""What agents and workflows are made of, the stores, and what a command imports when it is given."""
