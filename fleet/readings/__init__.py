"""Parsers: tool text in, frozen dataclass out.

Nothing here knows Django, a connection or a clock, and nothing decides what to do about a node.
"""
