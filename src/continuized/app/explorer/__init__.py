"""The explorer: one page that runs the process in a browser."""
