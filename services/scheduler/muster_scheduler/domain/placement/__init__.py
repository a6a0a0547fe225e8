"""Where one workload goes: its pools and clusters in order, all of it or none."""
