"""One turn of the scheduler: whose turn it is, who is woken, what is placed."""
