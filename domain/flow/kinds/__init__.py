"""The kinds of nodes that do not leave the process: pure functions from a node and its view to its result."""
