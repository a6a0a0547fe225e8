"""A fleet in virtual time: the very state machine of the service, with simulated people and agents around it."""
