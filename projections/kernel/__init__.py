"""The ground of every read model: tables that are described once, what changes in them, and the projections.

A read model is made of the log alone and can be thrown away at any time.
"""
