"""The front door: the public API, tenancy, templates, triggers and the read model."""
