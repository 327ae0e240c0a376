"""Numbers about a run and about the machine it runs on."""
