"""Bodies of the REST API, both ways, and their schemas."""
