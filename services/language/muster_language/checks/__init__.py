"""The LAYER stage: what one layer has to keep by itself, whatever channel it came by."""
