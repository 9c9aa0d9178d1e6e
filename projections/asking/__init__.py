"""Questions to the read model of runs, as statements, and their answers, made of rows. Both are pure."""
