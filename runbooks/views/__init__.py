"""Pages of incidents and of runs of books: permission, one service, one template."""
