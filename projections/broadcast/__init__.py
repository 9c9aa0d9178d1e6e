"""The messages that front ends get of a run, folded from its lifecycle events."""
