"""May the run go on? Every criterion votes, every vote is kept, and the votes resolve independently of their order.

A guard permits or forbids; a work driver asks for more work or says that its work is done.
"""
