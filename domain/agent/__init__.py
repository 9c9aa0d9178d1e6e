"""The agent machine: one session, its executions, steps, model calls and tool calls, folded from events only."""
