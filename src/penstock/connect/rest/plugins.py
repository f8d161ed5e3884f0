"""`/connector-plugins` and `/admin/loggers`: Kafka Connect's resources of plugins and of log levels."""

from __future__ import annotations

from typing import Final

from penstock.connect.herder.herder import ConnectRestError, Herder
from penstock.connect.rest.messages import Result, read_config, read_json
from penstock.connect.rest.routing import Call, Route

LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
_SUFFIX: Final = "Connector"


class PluginsResource:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> list[Route]:
        plugin = "/connector-plugins/{plugin}"
        return [
            Route("GET", "/connector-plugins", self.list, "Plugins that this worker has",
                  query={"connectorsOnly": "false: converters, transforms and predicates too"}),
            Route("GET", f"{plugin}/config", self.definitions, "Definitions of a plugin's properties",
                  answers={200: "OK", 404: "No such plugin"}),
            Route("PUT", f"{plugin}/config/validate", self.validate, "Check a configuration of a connector",
                  takes_body=True, answers={200: "Checked, see `error_count`", 400: "It is of another connector"}),
        ]  # fmt: skip

    def list(self, call: Call) -> Result:
        plugins = self._herder.plugins(connectors_only=call.flag("connectorsOnly", default=True))
        return Result([{"class": each.class_name, "type": each.type, "version": each.version} for each in plugins])

    def definitions(self, call: Call) -> Result:
        return Result([*self._herder.plugin_config(call.names[0])])

    def validate(self, call: Call) -> Result:
        plugin = call.names[0]
        config = read_config(read_json(call.content))
        included = config.get("connector.class")
        if included is not None and not _normal(included).endswith(_normal(plugin)):
            raise ConnectRestError(400, f"Included connector type {included} does not match request type {plugin}")
        try:
            return Result(dict(self._herder.validate(plugin, config)))
        except ConnectRestError as refused:
            # Kafka Connect checks in another thread, and wraps what goes wrong there.
            if refused.status != 400:
                raise
            wrapped = f"org.apache.kafka.connect.runtime.rest.errors.BadRequestException: {refused}"
            raise ConnectRestError(500, wrapped) from None


def _normal(name: str) -> str:
    return name.removesuffix(_SUFFIX) or name


class LoggersResource:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> list[Route]:
        logger = "/admin/loggers/{logger}"
        return [
            Route("GET", "/admin/loggers", self.list, "Loggers and their levels"),
            Route("GET", logger, self.get, "Level of a logger", answers={200: "OK", 404: "No such logger"}),
            Route("PUT", logger, self.put, "Set the level of a logger and of those below it", takes_body=True,
                  query={"scope": "worker (default) or cluster"},
                  answers={200: "Names of the loggers that changed", 204: "Sent to all workers",
                           400: "No level", 404: "No such level"}),
        ]  # fmt: skip

    def list(self, _call: Call) -> Result:
        return Result({name: dict(level) for name, level in self._herder.logger_levels().items()})

    def get(self, call: Call) -> Result:
        level = self._herder.logger_level(call.names[0])
        if level is None:
            raise ConnectRestError(404, f"Logger {call.names[0]} not found.")
        return Result(dict(level))

    def put(self, call: Call) -> Result:
        level = read_config(read_json(call.content)).get("level")
        if level is None:
            raise ConnectRestError(400, "Desired 'level' parameter was not specified in request.")
        if level.upper() not in LEVELS:
            raise ConnectRestError(404, f"invalid log level '{level}'.")
        in_cluster = (call.option("scope") or "worker").lower() == "cluster"
        changed = self._herder.set_logger_level(call.names[0], level.upper(), in_cluster=in_cluster)
        return Result(status=204) if in_cluster else Result([*changed])
