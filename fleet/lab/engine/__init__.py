"""The rehearsed vLLM: one container's engine as real processes, logs, sockets and metrics.

Not in charge of nodes, docker or hardware; it is copied out of the tree and imports nothing of it.
"""
