"""`python -m continuized`: the command line."""

from continuized.app.cli import main

if __name__ == "__main__":
    main(prog_name="continuized")
