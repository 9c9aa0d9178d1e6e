"""Runs any machine: journal, ownership, effects, readers of the log. Knows no kind of machine."""
