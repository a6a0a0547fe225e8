"""What people are told: why a workload waits, what would let it start, what would become of one."""
