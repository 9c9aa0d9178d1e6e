"""What performs the effects of agents."""
