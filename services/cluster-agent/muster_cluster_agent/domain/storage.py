"""Folders that a container is given from outside: what a workload's spec says of volumes.

Made by `adapters.volumes` for back ends that have containers, carried by templates and plans. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigMapFiles:
    """The entries of a ConfigMap of the cluster."""

    name: str


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """The entries of a Secret of the cluster."""

    name: str


@dataclass(frozen=True, slots=True)
class EmptyFolder:
    """A folder that is empty at the start and goes with its replica."""


@dataclass(frozen=True, slots=True)
class NfsExport:
    """A folder that an NFS server exports."""

    server: str
    path: str


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A folder of the node. follows: mounts that the node makes later below it show up in the container."""

    path: str
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ExistingClaim:
    """A claim that is there already. block: it is a raw device and no file system."""

    name: str
    block: bool = False


@dataclass(frozen=True, slots=True)
class NewClaim:
    """A claim that is made for the workload.

    name: empty: one is made of the workload's. size: bytes as the API writes them. storage_class: empty: the cluster's
    default. modes: as the API names them. block: a raw device and no file system. ephemeral: it goes with its run.
    """

    size: str
    name: str = ""
    storage_class: str = ""
    modes: tuple[str, ...] = ("ReadWriteOnce",)
    block: bool = False
    ephemeral: bool = False


Source = ConfigMapFiles | SecretFiles | EmptyFolder | NfsExport | NodeFolder | ExistingClaim | NewClaim


@dataclass(frozen=True, slots=True)
class Volume:
    """One folder. label: its name within the workload. path: where the container finds it."""

    label: str
    path: str
    source: Source
    read_only: bool = False
