"""The state of a session as a plain dictionary: slim for a front end that shows it, or whole."""
