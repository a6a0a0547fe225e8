"""The chassis: all I/O that Muster's services share, so that a service holds its own subject and nothing else.

Services call it from their composition root. It never knows a workload, a policy or a device.
"""
