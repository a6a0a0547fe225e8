"""The EFFECTIVE stage: what a spec lacks or contradicts once all its layers are in."""
