"""Replicas as local processes.

`forkserver` and everything it imports (supervisor, journal, procfs, logfile) use the standard library alone: they are
the code that stays in memory once per replica.
"""
