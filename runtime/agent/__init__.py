"""Performs the effects of agents."""
