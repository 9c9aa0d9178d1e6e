"""What a try of a node does outside: one module for each kind of node."""
