"""The way in from Python: the trail, its sessions, and their blocking twins."""
