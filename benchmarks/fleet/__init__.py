"""Worker processes that carry on many sessions of one PostgreSQL database, beside a queue of another library."""
