"""Programs that run inside replicas. Each is one file of the standard library, so that any image can carry it."""
