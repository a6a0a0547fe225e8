"""The scheduler: inventory, queues, placement and the lifecycle of workloads."""
