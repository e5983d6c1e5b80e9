"""The golden answers, wherever their file lies: in the package, above it, or beside it."""

try:
    from .golden import answer, reasoning, text_of  # type: ignore[import-not-found]
except ImportError:
    try:
        from ..golden import answer, reasoning, text_of
    except ImportError:  # run as a top-level package: the folder above is on the path
        from golden import answer, reasoning, text_of  # type: ignore[import-not-found, no-redef]

__all__ = ["answer", "reasoning", "text_of"]
