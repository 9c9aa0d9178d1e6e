"""The machine of workflows: a recorded graph of nodes, and the events from which a run of it is folded. Pure."""
