"""The recorders of the `eventsourcing` library over our tables."""
