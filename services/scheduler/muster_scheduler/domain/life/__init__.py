"""What follows when somebody says something: people, policy, agents, and time itself."""
