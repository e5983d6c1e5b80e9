"""Readings of NICs and disks: InfiniBand and RoCE ports, GIDs, network links, block devices."""
