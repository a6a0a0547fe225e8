"""What stands behind `make VERB`: one module a verb, standard library only, because it runs before anything is installed."""
