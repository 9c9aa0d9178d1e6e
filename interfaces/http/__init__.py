"""The ways in over HTTP: event streams and AG-UI."""
