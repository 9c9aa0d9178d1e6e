"""Workflows: how one is written, and how its runs are carried on."""
