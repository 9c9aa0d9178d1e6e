"""Engines that wake the workers of a fleet."""
