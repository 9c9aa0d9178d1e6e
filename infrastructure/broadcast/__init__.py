"""Getting messages about runs to front ends."""
