"""A session as a front end shows it, as data."""
