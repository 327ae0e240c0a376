"""Models: what is in a file, whether it runs here, and where to get one."""
