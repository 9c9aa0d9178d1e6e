"""An HTTP service around an agent."""
