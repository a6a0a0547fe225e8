"""What can go wrong with a stack, as people read it.

StackError
  AlreadyRunning      another keeper holds this data folder
  NotRunning          no keeper holds it
  DownloadFailed      a Kafka jar could not be fetched, or is not the one in the lock
  StartFailed         Kafka, PostgreSQL or a service did not become ready
  NoRoom              disk, memory or ports do not suffice
  NoFolder            the data folder is none
"""

from __future__ import annotations


class StackError(Exception):
    """The root: its text is for a person and says what to do next."""


class AlreadyRunning(StackError):
    """Another keeper holds this data folder."""


class NotRunning(StackError):
    """No keeper holds this data folder."""


class DownloadFailed(StackError):
    """A Kafka jar could not be fetched, or what came is not what the lock names."""


class StartFailed(StackError):
    """Something did not become ready in its time."""


class NoFolder(StackError):
    """The data folder is no folder, or none that we may write to."""


class NoRoom(StackError):
    """The machine has not enough disk, memory or ports."""
