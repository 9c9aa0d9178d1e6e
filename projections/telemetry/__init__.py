"""Spans of runs, made of the log alone: the same ones while a run goes on, and from a recording of it."""
