"""The demo's user programs. Nothing imports them: replicas start them by their paths."""
