"""The border of workflows: expressions, schemas, and definitions that are read from texts."""
