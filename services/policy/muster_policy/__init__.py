"""Policies: fills defaults and refuses what is not allowed."""
