"""Rules of runbooks: books, runs, incidents. Pure."""
