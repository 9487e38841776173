"""`python -m continuized`: the command line."""

from continuized.app.cli import main

main(prog_name="continuized")
