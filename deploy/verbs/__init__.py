"""What stands behind `make VERB`, one module a verb. Standard library only: it runs before anything is installed."""
