"""The command line: what reads arguments, writes files and talks to people."""
