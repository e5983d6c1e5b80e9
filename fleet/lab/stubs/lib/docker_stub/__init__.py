"""Docker's verbs on a rehearsed node; standard library only, run as `python -I -S`."""
