"""A document pipeline: a model, a tool that fails at times, a person, and a message that nobody misses much."""
