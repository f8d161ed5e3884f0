"""`penstock user create|list|delete`: SCRAM users of a cluster.

A password is never an argument, because every user of the machine sees arguments: it is asked for, read from standard
input, or read from a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples
from penstock.core.credentials import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism

UserArgument = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
Mechanism = Annotated[str, typer.Option("--mechanism", metavar="MECHANISM", help="SCRAM-SHA-256 or SCRAM-SHA-512.")]


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="Create, list and delete SCRAM users.")
    commands: dict[Callable[..., Any], str] = {
        create: examples(
            "penstock user create alice                             ask for the password",
            "penstock user create alice --password-file alice.secret",
            "pass show alice | penstock user create alice --mechanism SCRAM-SHA-256",
        ),
        list_users: examples("penstock user list", "penstock user list --json"),
        delete: examples("penstock user delete alice"),
    }
    for command, epilog in commands.items():
        app.command("list" if command is list_users else command.__name__, epilog=epilog)(command)
    return app


def create(
    *,
    user: UserArgument,
    mechanism: Mechanism = "SCRAM-SHA-512",
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            min=SCRAM_ITERATIONS_MIN,
            max=SCRAM_ITERATIONS_MAX,
            metavar="N",
            help="More make guessing slower.",
        ),
    ] = SCRAM_ITERATIONS_MIN,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="The file whose first line is the password."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Create a user, or change its password."""
    chosen = parsed_mechanism(mechanism)
    password = read_password(user, password_file)
    with connected(bootstrap_server, client_properties) as configuration:
        from penstock.client.security_admin import SecurityAdmin

        SecurityAdmin.from_librdkafka(configuration).set_user(user, chosen, password, iterations)
    if as_json:
        print(json.dumps({"user": user, "mechanism": str(chosen), "iterations": iterations}))
    else:
        print(f"User {user} can authenticate with {chosen}.")


def list_users(
    *,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """List the users with their mechanisms."""
    with connected(bootstrap_server, client_properties) as configuration, wire_connected(configuration) as client:
        users = client.describe_users()
    if as_json:
        shown = [
            {"user": user, "mechanisms": {str(mechanism): count for mechanism, count in infos.items()}}
            for user, infos in users.items()
        ]
        print(json.dumps(shown))
        return
    for user, infos in users.items():
        print(f"{user}\t" + ", ".join(f"{mechanism} ({count} iterations)" for mechanism, count in infos.items()))


def delete(
    *,
    user: UserArgument,
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", metavar="MECHANISM", help="Only this one. Default: all of the user's.")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Delete a user. Connections that are open stay open until they authenticate again."""
    chosen = None if mechanism is None else parsed_mechanism(mechanism)
    with connected(bootstrap_server, client_properties) as configuration:
        from penstock.client.security_admin import SecurityAdmin

        admin = SecurityAdmin.from_librdkafka(configuration)
        with wire_connected(configuration) as client:
            known = client.describe_users().get(user, {})
        wanted = [each for each in known if chosen in (None, each)]
        if not wanted:
            raise usage_error(f"user '{user}' has no such credential; `penstock user list` shows all users")
        for each in wanted:
            admin.delete_user(user, each)
    if as_json:
        print(json.dumps({"user": user, "deleted": [str(each) for each in wanted]}))
    else:
        print(f"Deleted {user}: {', '.join(map(str, wanted))}.")


def parsed_mechanism(text: str) -> ScramMechanism:
    by_name = {str(mechanism): mechanism for mechanism in ScramMechanism}
    if text.upper() not in by_name:
        raise usage_error(f"--mechanism {text}: expected one of {', '.join(by_name)}")
    return by_name[text.upper()]


def read_password(user: str, file: Path | None) -> str:
    """From the file, from a prompt, or from standard input if that is not a terminal."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise usage_error(f"--password-file {file}: {reason}") from None
    elif sys.stdin.isatty():
        text = str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    else:
        text = sys.stdin.readline()
    password = text.partition("\n")[0].removesuffix("\r")
    if not password:
        raise usage_error("the password is empty")
    return password
