"""Hooks: code of the user that runs at named moments of a run. It may vote, and change certain things."""
