"""How usage is counted, as functions over values."""
