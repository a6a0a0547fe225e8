"""The text of a policy document into a policy."""
