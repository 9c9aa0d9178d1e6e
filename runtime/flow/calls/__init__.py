"""The work of a try of a node outside the process: one module for each kind of node."""
