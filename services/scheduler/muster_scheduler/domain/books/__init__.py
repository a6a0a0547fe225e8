"""Everything that the scheduler knows of capacity, queues and workloads, and the small changes that all rooms make."""
