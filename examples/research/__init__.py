"""A report on what a folder of files says, with citations that are checked."""
