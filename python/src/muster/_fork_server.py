"""Imported by multiprocessing's fork server, in whose process group its children are."""

from muster import _process

_process.leave_group_of_parent()
