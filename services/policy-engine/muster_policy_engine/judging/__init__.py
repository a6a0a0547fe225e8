"""The verdict about a submission."""
