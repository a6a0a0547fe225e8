"""The agent's one loop of thought, in three files: what is due, what is told, and the loop itself."""
