"""Keeps read models beside the log: their tables in both databases, and what applies the log to them.

Everything here can be thrown away and is then made anew from the log.
"""
