"""`penstock connector`: the connectors of a Connect worker, over its REST API. It works with Kafka's own workers too.

Owns the flags and the output; `connect_api.py` makes the requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.options import AsJson, examples, parse_assignments
from penstock.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from penstock.cli.connect_api import ConnectApi, Refused

_DEFAULT_URL: Final = "http://127.0.0.1:8083"
Url = Annotated[
    str, typer.Option("--url", envvar="PENSTOCK_CONNECT_URL", metavar="URL", help="The REST API of a Connect worker.")
]
User = Annotated[
    str | None,
    typer.Option("--user", envvar="PENSTOCK_CONNECT_USER", metavar="NAME:PASSWORD", help="For Basic authentication."),
]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="PENSTOCK_CONNECT_TOKEN", metavar="TOKEN", help="For Bearer authentication."),
]
CaFile = Annotated[
    str | None, typer.Option("--ca-file", metavar="FILE", help="Certificates (PEM) to trust, for https.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The connector's name.")]
ConfigFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="JSON, as Kafka Connect's REST API takes it, or a properties file; - is stdin.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A property; repeatable, wins over FILE."),
]


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="Create, list, steer and delete connectors of a Connect worker.")
    commands: dict[str, tuple[Callable[..., Any], str]] = {
        "list": (list_connectors, examples("penstock connector list", "penstock connector list --json")),
        "create": (
            create,
            examples(
                "penstock connector create lines.json",
                "penstock connector create lines.properties -c tasks.max=2",
                "penstock connector create lines.json --stopped     set offsets before the first start",
                "penstock connector create lines.json --update      also change one that exists",
            ),
        ),
        "status": (
            status,
            examples("penstock connector status lines", "penstock connector status lines --json")
            + "\n\n\b\nExit codes: 0; 1 the connector or a task has FAILED; 4 no such connector.",
        ),
        "pause": (pause, examples("penstock connector pause lines")),
        "resume": (resume, examples("penstock connector resume lines")),
        "stop": (stop, examples("penstock connector stop lines                     needed to change its offsets")),
        "restart": (
            restart,
            examples(
                "penstock connector restart lines                  the connector and its tasks",
                "penstock connector restart lines --only-failed",
                "penstock connector restart lines --task 0",
            ),
        ),
        "delete": (delete, examples("penstock connector delete lines")),
        "offsets": (
            offsets,
            examples(
                "penstock connector offsets lines",
                "penstock connector offsets lines --json > offsets.json",
                "penstock connector offsets lines --set offsets.json",
                "penstock connector offsets lines --reset",
            ),
        ),
        "validate": (
            validate,
            examples("penstock connector validate lines.json")
            + "\n\n\b\nExit codes: 0 valid; 1 not valid, each mistake on a line of stderr.",
        ),
        "plugins": (
            plugins,
            examples(
                "penstock connector plugins",
                "penstock connector plugins --all",
                "penstock connector plugins FileStreamSink         its properties",
            ),
        ),
    }  # fmt: skip
    for name, (command, epilog) in commands.items():
        app.command(name, epilog=epilog)(command)
    return app


def list_connectors(
    *,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List connectors with their states."""
    found = _api(url, user, token, ca_file).ask("GET", "/connectors?expand=status&expand=info")
    if as_json:
        print(json.dumps(found))
        return
    from penstock.cli.group_layout import table

    rows = [_row(name, each.get("status") or {}, each.get("info") or {}) for name, each in sorted(found.items())]
    print(table(["NAME", "TYPE", "STATE", "TASKS", "CLASS", "WORKER"], rows))


def _row(name: str, status: Mapping[str, Any], info: Mapping[str, Any]) -> list[object]:
    connector = status.get("connector", {})
    tasks = status.get("tasks", [])
    running = sum(task["state"] == "RUNNING" for task in tasks)
    class_name = info.get("config", {}).get("connector.class", "").rpartition(".")[2]
    shown = f"{running}/{len(tasks)} running" if tasks else None
    return [name, status.get("type"), connector.get("state"), shown, class_name, connector.get("worker_id")]


def create(
    file: ConfigFile,
    *,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Instead of the name in FILE.")] = None,
    settings: Settings = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    stopped: Annotated[bool, typer.Option("--stopped", help="Create it stopped.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Replace its configuration if it exists.")] = False,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a connector from a file."""
    if paused + stopped + update > 1:
        raise usage_error("--paused, --stopped and --update exclude each other")
    chosen, config = _read(file, name, settings)
    from penstock.cli.connect_api import Refused, connector_path

    api = _api(url, user, token, ca_file)
    try:
        if update:
            answer = api.request("PUT", f"{connector_path(chosen)}/config", config)
        else:
            body: dict[str, Any] = {"name": chosen, "config": config}
            if paused or stopped:
                body["initial_state"] = "PAUSED" if paused else "STOPPED"
            answer = api.request("POST", "/connectors", body)
    except Refused as refused:
        raise _not_created(api, file, chosen, refused) from refused
    if as_json:
        print(json.dumps(answer))
    else:
        state = "created, and paused" if paused else "created, and stopped" if stopped else "created"
        print(
            f"{answer['name']} is {'up to date' if update else state}; see `penstock connector status {answer['name']}`"
        )


def _not_created(api: ConnectApi, file: str, name: str, refused: Refused) -> CommandError:
    if refused.status == 409 and "already exists" in refused.message:
        return CommandError(f"connector '{name}' exists already; change it with --update")
    if "is invalid and contains" in refused.message:
        mistakes = refused.message.splitlines()[1:-1]
        return CommandError(f"{file}: {'; '.join(mistakes)}", ExitCode.FAILURE)
    failure = api.failure(refused)
    return CommandError(f"{file}: {failure}", failure.exit_code)


def status(
    name: Name,
    *,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a connector and of its tasks, and why they failed."""
    found = _api(url, user, token, ca_file).ask_about(name, "GET", "/status")
    print(json.dumps(found) if as_json else _status_text(found))
    if "FAILED" in (found["connector"]["state"], *(task["state"] for task in found["tasks"])):
        raise typer.Exit(ExitCode.FAILURE)


def _status_text(found: Mapping[str, Any]) -> str:
    connector = found["connector"]
    lines = [f"{found['name']}: {connector['state']}, {found['type']}, on {connector['worker_id']}"]
    lines += _trace_lines(connector)
    for task in found["tasks"]:
        lines.append(f"  task {task['id']}: {task['state']} on {task['worker_id']}")
        lines += _trace_lines(task)
    return "\n".join(lines)


def _trace_lines(state: Mapping[str, Any]) -> list[str]:
    return [f"    {line}" for line in (state.get("trace") or "").splitlines()]


def pause(
    name: Name, *, url: Url = _DEFAULT_URL, user: User = None, token: Token = None, ca_file: CaFile = None
) -> None:
    """Pause a connector; it keeps its tasks."""
    _api(url, user, token, ca_file).ask_about(name, "PUT", "/pause")
    print(f"{name} is to be PAUSED")


def resume(
    name: Name, *, url: Url = _DEFAULT_URL, user: User = None, token: Token = None, ca_file: CaFile = None
) -> None:
    """Resume a connector that is paused or stopped."""
    _api(url, user, token, ca_file).ask_about(name, "PUT", "/resume")
    print(f"{name} is to be RUNNING")


def stop(
    name: Name, *, url: Url = _DEFAULT_URL, user: User = None, token: Token = None, ca_file: CaFile = None
) -> None:
    """Stop a connector and its tasks; its configuration and offsets stay."""
    _api(url, user, token, ca_file).ask_about(name, "PUT", "/stop")
    print(f"{name} is to be STOPPED")


def restart(
    name: Name,
    *,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only what has FAILED.")] = False,
    task: Annotated[int | None, typer.Option("--task", min=0, metavar="N", help="Only this task.")] = None,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
) -> None:
    """Restart a connector and its tasks."""
    if task is not None and only_failed:
        raise usage_error("--task and --only-failed exclude each other")
    api = _api(url, user, token, ca_file)
    if task is not None:
        # First, so that a 404 is about the task.
        api.ask_about(name, "GET")
        from penstock.cli.connect_api import connector_path

        api.ask("POST", f"{connector_path(name)}/tasks/{task}/restart")
        print(f"task {task} of {name} restarts")
        return
    query = f"?includeTasks=true&onlyFailed={str(only_failed).lower()}"
    answer = api.ask_about(name, "POST", f"/restart{query}")
    states = [answer["connector"]["state"], *(each["state"] for each in answer["tasks"])]
    print(f"{name} restarts" if "RESTARTING" in states else f"nothing of {name} has failed; it is {states[0]}")


def delete(
    name: Name, *, url: Url = _DEFAULT_URL, user: User = None, token: Token = None, ca_file: CaFile = None
) -> None:
    """Delete a connector; its offsets stay."""
    _api(url, user, token, ca_file).ask_about(name, "DELETE")
    print(f"{name} is deleted")


def offsets(
    name: Name,
    *,
    set_: Annotated[
        str | None,
        typer.Option("--set", metavar="FILE", help="Set offsets, in the form that --json prints; - is stdin."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget all offsets.")] = False,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the offsets of a connector, or change those of a stopped one."""
    if set_ is not None and reset:
        raise usage_error("--set and --reset exclude each other")
    api = _api(url, user, token, ca_file)
    if set_ is not None:
        print(api.ask_about(name, "PATCH", "/offsets", _json(set_, _text(set_)))["message"])
    elif reset:
        print(api.ask_about(name, "DELETE", "/offsets")["message"])
    else:
        found = api.ask_about(name, "GET", "/offsets")
        if as_json:
            print(json.dumps(found))
            return
        from penstock.cli.group_layout import table

        rows = [[json.dumps(each["partition"]), json.dumps(each["offset"])] for each in found["offsets"]]
        print(table(["PARTITION", "OFFSET"], rows))


def validate(
    file: ConfigFile,
    *,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Instead of the name in FILE.")] = None,
    settings: Settings = None,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Check a connector's configuration without creating it."""
    chosen, config = _read(file, name, settings)
    if "connector.class" not in config:
        raise usage_error(f"{file}: connector.class is missing")
    from urllib.parse import quote

    path = f"/connector-plugins/{quote(config['connector.class'], safe='')}/config/validate"
    found = _api(url, user, token, ca_file).ask("PUT", path, {**config, "name": chosen})
    if as_json:
        print(json.dumps(found))
    for warning in found.get("penstock.warnings", ()):
        print(f"penstock: warning: {warning}", file=sys.stderr)
    for each in found["configs"]:
        for error in each["value"]["errors"]:
            line = " ".join(error.split())
            shown = line if each["value"]["name"] in line else f"{each['value']['name']}: {line}"
            print(f"{file}: {shown}", file=sys.stderr)
    if found["error_count"]:
        raise typer.Exit(ExitCode.FAILURE)
    if not as_json:
        print(f"{file}: {chosen} is valid")


def plugins(
    plugin: Annotated[
        str | None, typer.Argument(metavar="PLUGIN", show_default=False, help="Show the properties of this one.")
    ] = None,
    *,
    all_kinds: Annotated[bool, typer.Option("--all", help="Converters, transforms and predicates too.")] = False,
    url: Url = _DEFAULT_URL,
    user: User = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the plugins of a worker, or the properties of one."""
    from penstock.cli.group_layout import table

    api = _api(url, user, token, ca_file)
    if plugin is None:
        found = api.ask("GET", f"/connector-plugins?connectorsOnly={str(not all_kinds).lower()}")
        rows = [[each["class"], each["type"], each["version"]] for each in found]
        print(json.dumps(found) if as_json else table(["CLASS", "TYPE", "VERSION"], rows))
        return
    from urllib.parse import quote

    found = api.ask("GET", f"/connector-plugins/{quote(plugin, safe='')}/config")
    rows = [[each["name"], each["type"], _default(each), each["documentation"]] for each in found]
    print(json.dumps(found) if as_json else table(["PROPERTY", "TYPE", "DEFAULT", "MEANING"], rows))


def _default(definition: Mapping[str, Any]) -> str | None:
    return "(required)" if definition["required"] else definition["default_value"]


# Input


def _api(url: str, user: str | None, token: str | None, ca_file: str | None) -> ConnectApi:
    from penstock.cli.connect_api import ConnectApi

    return ConnectApi(url, user, token, ca_file)


def _read(file: str, name: str | None, settings: list[str] | None) -> tuple[str, dict[str, Any]]:
    """Name and configuration: `{"name": ..., "config": {...}}`, only the configuration, or properties."""
    text = _text(file)
    if text.lstrip().startswith("{"):
        found = _json(file, text)
        config = found.get("config", found)
        named = found.get("name") or (config.get("name") if isinstance(config, dict) else None)
    else:
        config = _properties(file, text)
        named = config.get("name")
    if not isinstance(config, dict):
        raise usage_error(f"{file}: 'config' is no JSON object")
    chosen = name or named
    if not chosen:
        raise usage_error(f'{file}: the connector has no name; add "name" or give --name')
    config = {**config, **parse_assignments(settings or (), "--config")}
    return str(chosen), {**config, "name": str(chosen)} if "name" in config else config


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise usage_error(f"{file}: {getattr(failure, 'strerror', None) or 'it is no text in UTF-8'}") from failure


def _json(file: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise usage_error(f"{file}: no JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise usage_error(f"{file}: expected a JSON object")
    return found


def _properties(file: str, text: str) -> dict[str, Any]:
    from penstock.core.properties import PropertiesError, parse_properties

    try:
        return {entry.key: entry.value for entry in parse_properties(text)}
    except PropertiesError as wrong:
        raise usage_error(f"{file}: {wrong}") from None
