"""A yes that may take days: three programs, none of which waits."""
