"""The process keeper: what runs while a stack is up.

parts.py     what a stack consists of: how each part starts, when it is ready, how it stops
child.py     one part kept alive
probes.py    is it ready?
logs.py      log files do not grow without end
state.py     stack.json, which outlives the keeper
control.py   the socket over which `status`, `down`, tests and chaos talk to a running keeper
house.py     all of it together: start in order, keep, stop in order
sweep.py     what a killed keeper left behind
"""
