"""What policy decides, as functions over values."""
