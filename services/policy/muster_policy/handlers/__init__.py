"""What policy does with what comes in."""
