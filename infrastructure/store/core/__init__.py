"""The parts that all stores share, whatever the database."""
