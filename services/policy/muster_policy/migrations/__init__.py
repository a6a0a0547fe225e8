"""Numbered SQL of policy's schema."""
