"""The inspector: pages of all runs of a store, drawn by the server, for a browser. They only read."""
