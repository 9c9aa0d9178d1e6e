"""A support desk over the database of a shop."""
