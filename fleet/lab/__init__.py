"""The rehearsal lab: GPU nodes played on this machine by real SSH daemons and stubs.

Nothing here imports Django; the console only meets the lab through SSH and the inventory.
"""
