"""How things look: for people as text and tables, for programs as plain values. Pure: the clock is an argument."""
