"""What is asked and allowed, as values: shapes, terms, rules, quotas, workloads and the limits that all live by."""
