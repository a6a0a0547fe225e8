"""Placement strategies that look ahead: which node of those that fit is the least loss for what usually arrives."""
