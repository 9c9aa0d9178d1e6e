"""The read model of runs: rows and sums of the executions of agents and workflows, made of the log alone."""
