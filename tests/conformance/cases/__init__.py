"""The cases, by what they are about. Each module registers its own."""
