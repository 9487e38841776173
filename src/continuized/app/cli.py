"""The command line: `continuized COMMAND`.

Commands are imported when they are called, so that `--help` is instant.  Here, and only
here, errors become sentences: exit code 1 when a check fails, 2 on bad input.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Any

import click

from continuized import __version__
from continuized.app.commands import Interrupted
from continuized.support import validation as check

# Each lives in continuized.app.commands.NAME.
COMMANDS = {
    "reproduce": "Remake figures 1 and 2 of the paper: pictures, data and a report.",
    "explore": "See the process in a browser: paths, many runs, networks.",
    "verify": "Check every claim of the paper against this implementation.",
    "certify": "Prove a rate of convergence for parameters of your own, in exact arithmetic.",
    "solve": "Fit a regression to a data file, CSV or LIBSVM, and print a summary.",
    "predict": "Apply a fitted model to a data file.",
    "gossip": "Average over a network, plain and accelerated, simulated or real.",
    "decentralized": "Fit a regression to data that are split over the nodes of a network.",
}
RETRY = 0.02  # seconds until an interrupt is tried again


class OneSentence(click.Command):
    """A command whose errors are one sentence each."""

    def __call__(self, *args: Any, **extra: Any) -> Any:
        """Run as the work of a process, which Ctrl-C ends unless it was started to ignore that."""
        if hasattr(sys.stdout, "reconfigure"):  # as standard error does what it cannot encode
            sys.stdout.reconfigure(errors="backslashreplace")
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not ours or os.name != "posix":  # elsewhere there are no alarms
            return super().__call__(*args, **extra)
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)
        try:
            return super().__call__(*args, **extra)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)  # it would kill a process without a handler

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run; every error that is the user's to mend ends in one sentence on stderr."""
        extra["standalone_mode"] = False
        try:
            result = super().main(*args, **extra)
        except click.exceptions.Abort:
            _end("interrupted", Interrupted.exit_code)
        except Interrupted as error:
            _end(error.format_message(), error.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        except click.ClickException as error:
            _end(error.format_message(), 2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has gone
                raise
            where = f"{error.filename}: " if error.filename else ""
            _end(f"{where}{error.strerror or error}", 2)
        except ImportError as error:
            if error.name not in ("cvxpy", "matplotlib", "networkx", "ray"):
                raise
            _end(str(error), 2)
        # A command that found a failed check returns 1; click's own --help and --version, 0.
        sys.exit(result if isinstance(result, int) else 0)


class Commands(OneSentence, click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"continuized.app.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; where there is none, say which there are."""
        if not ctx.resilient_parsing and not args[0].startswith("-"):  # click knows of options
            try:
                check.one_of(args[0], "the command", COMMANDS)
            except ValueError as error:
                ctx.fail(str(error))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or in a compiler or a finaliser try again a little later.

    llvmlite notes that LLVM has taken a module over only after the call that does so: an interrupt
    in between has the module freed twice, and the process crashes.  One in a finaliser is lost.
    """
    while frame is not None:
        library = frame.f_globals.get("__name__", "").partition(".")[0]
        if library in ("llvmlite", "numba") or frame.f_code.co_name == "__del__":
            signal.setitimer(signal.ITIMER_REAL, RETRY)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _end(sentence: str, code: int) -> None:
    click.echo(f"continuized: {sentence}", err=True)
    sys.exit(code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="continuized")
def main() -> None:
    """Continuized Nesterov acceleration: the paper's figures and claims, and a solver."""


if __name__ == "__main__":
    main()
