"""Hooks: code of the service that runs at named points, votes, and changes what it may change."""
