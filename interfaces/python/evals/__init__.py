"""Evaluations: another agent runs what recorded sessions were asked, and judges compare the answers."""
