"""The composition root of the command line: assembles the commands that Typer parses.

Owns the table of commands, and the translation of Typer's and the client's errors into `CommandError`. Commands import
confluent-kafka and Rich inside their functions: `penstock --help` needs neither. A command line that begins with a
command imports the module of that one only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError
from penstock.cli.connection import COMMAND_CONFIG_VARIABLE
from penstock.cli.options import examples
from penstock.core.exit_codes import ExitCode

_BROKER_CODES: Final = frozenset(
    {ExitCode.BAD_CONFIGURATION, ExitCode.CANNOT_LISTEN, ExitCode.DATA_DIR_IN_USE, ExitCode.DATA_DIR_UNUSABLE}
)
_GROUPS: Final = ("topic", "group", "cluster", "user", "acl", "quota", "dead-letters", "connector")
"""Commands with subcommands: a module of the same name with `build`."""
_COMMANDS: Final = {
    "produce": "produce",
    "consume": "consume",
    "run": "run",
    "validate": "validate",
    "up": "up",
    "connect": "connect",
    "docs": "docs",
    "ps": "pipelines",
    "status": "pipelines",
    "stop": "pipelines",
    "restart": "pipelines",
    "logs": "logs",
}
"""The module of each; it has a function of that name, and EPILOG, or NAME_EPILOG where it has several commands."""
COMPLETION_VARIABLE: Final = "_PENSTOCK_COMPLETE"
_HELP: Final = "A Kafka-compatible broker, tools for any Kafka broker, and pipelines on Spark."
_EPILOG: Final = (
    examples(
        "penstock broker                                      start a broker on 127.0.0.1:9092",
        "penstock topic create orders --partitions 3",
        "seq 100 | penstock produce orders",
        "penstock consume orders --from-beginning -e",
        "penstock group describe billing                      show offsets and lag",
        "penstock run revenue.yaml                            run a pipeline",
    )
    + "\n\n\b\nExit codes: 0 success, 1 failure, 2 wrong usage, 3 broker unreachable, 4 no such topic or group,\n"
    "10-13 the broker cannot start, 20-30 a pipeline failed, 130 interrupted, 141 output closed; see docs/cli.md."
)


def _build(words: Sequence[str] = ()) -> typer.Typer:
    """With the one command that these words begin with, or with all of them."""
    only = words[0] if words and words[0] in (*_GROUPS, *_COMMANDS) else None
    # Plain help and plain errors: importing Rich would take a tenth of a second.
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=True,
        help=_HELP,
        epilog=_EPILOG,
    )
    # broker and bench parse their own arguments. main.py starts the broker without Typer; this entry is for the help.
    own_parser = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("broker", help="Run a broker in the foreground.", add_help_option=False, context_settings=own_parser)(
        _broker
    )
    for name in _GROUPS:
        if only in (None, name):
            app.add_typer(_module(name).build(), name=name)
    for name, module_name in _COMMANDS.items():
        if only in (None, name):
            module = _module(module_name)
            epilog = module.EPILOG if name == module_name else getattr(module, f"{name.upper()}_EPILOG")
            app.command(name, epilog=epilog)(getattr(module, name))
    app.command(
        "bench",
        help="Measure this machine, with Apache Kafka for comparison.",
        add_help_option=False,
        context_settings=own_parser,
    )(_bench)
    app.callback()(_options_before_the_command)
    return app


def _module(name: str) -> Any:
    return import_module(f"penstock.cli.{name.replace('-', '_')}")


def _broker(context: typer.Context) -> None:
    from penstock.cli.broker import run_broker

    raise typer.Exit(run_broker(context.args))


def _bench(context: typer.Context) -> None:
    from penstock.bench.main import main

    raise typer.Exit(main(context.args))


def _options_before_the_command(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    command_config: Annotated[
        str | None,
        typer.Option(
            "--command-config",
            envvar=COMMAND_CONFIG_VARIABLE,
            metavar="FILE",
            help="A properties file with client settings: security.protocol, sasl.jaas.config, ...",
        ),
    ] = None,
) -> None:
    if command_config is not None:
        # The broker and other commands that a command starts find it, too. `run_app` puts it back.
        os.environ[COMMAND_CONFIG_VARIABLE] = command_config


def run_app(words: list[str]) -> int:
    """Returns the exit code; raises CommandError for every failure that a user can cause."""
    from penstock.client.local_broker.process import BrokerProcessError
    from penstock.core.errors import (
        AccessDenied,
        BrokerUnreachable,
        ClientError,
        InvalidClientSetting,
        UnknownGroup,
        UnknownTopic,
    )
    from penstock.protocol.error_codes import BrokerError

    command = typer.main.get_command(_build(() if COMPLETION_VARIABLE in os.environ else words))
    if COMPLETION_VARIABLE in os.environ:
        # The shell asks for completions; Typer prints them and exits.
        command.main([], prog_name="penstock")
    # SIGTERM ends a command like ctrl-C: it leaves its group, commits offsets and releases the embedded broker.
    previous = signal.signal(signal.SIGTERM, _on_terminate)
    command_config = os.environ.get(COMMAND_CONFIG_VARIABLE)
    try:
        # Not command.main(): it has other exit codes for an interrupt and a closed output.
        with command.make_context("penstock", words) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as mistake:
        raise CommandError(_usage_message(mistake), ExitCode(mistake.exit_code)) from mistake
    except BrokerUnreachable as failure:
        raise CommandError(str(failure), ExitCode.UNREACHABLE) from failure
    except (UnknownTopic, UnknownGroup) as failure:
        raise CommandError(str(failure), ExitCode.NOT_FOUND) from failure
    except InvalidClientSetting as failure:
        raise CommandError(str(failure), ExitCode.USAGE) from failure
    except AccessDenied as failure:
        raise CommandError(str(failure), ExitCode.ACCESS_DENIED) from failure
    except ClientError as failure:
        raise CommandError(str(failure), ExitCode.FAILURE) from failure
    except BrokerError as failure:
        # Of the wire client, for requests that librdkafka does not have.
        raise CommandError(str(failure), failure.entry.exit_code) from failure
    except BrokerProcessError as failure:
        code = ExitCode(failure.exit_code) if failure.exit_code in _BROKER_CODES else ExitCode.FAILURE
        # The child's last line on stderr already names the problem.
        reason = failure.printed.rpartition("\n")[2].removeprefix("penstock: ").removeprefix("penstock broker: ")
        raise CommandError(f"the embedded broker: {reason or failure}", code) from failure
    finally:
        signal.signal(signal.SIGTERM, previous)
        # For the next command of this process.
        if command_config is None:
            os.environ.pop(COMMAND_CONFIG_VARIABLE, None)
        else:
            os.environ[COMMAND_CONFIG_VARIABLE] = command_config
    return ExitCode.OK


def _on_terminate(_signal: int, _frame: object) -> None:
    raise SystemExit(ExitCode.TERMINATED)


def _usage_message(mistake: typer.TyperException) -> str:
    message = mistake.format_message().rstrip(".").replace("Value error, ", "")
    context = getattr(mistake, "ctx", None)
    return f"{message}; see `{context.command_path} --help`" if context is not None else message
