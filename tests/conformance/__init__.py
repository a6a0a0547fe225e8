"""What every back end of the cluster agent has to do, told once: `make conformance BACKEND=local|fake|apiserver`.

A case speaks Kafka records to a real agent process and reads its reports. A platform is what the agent's back end acts
on: this machine, an API server of the tests' own, or a real one. Cases that a platform cannot play are skipped, each by
the capability that is missing, and the list of them is committed (skipped.json).
"""
