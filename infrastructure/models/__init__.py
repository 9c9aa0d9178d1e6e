"""Model drivers: what a provider speaks, turned into messages and back. A driver imports its client on first use."""
