"""Writers of incidents and runs."""
