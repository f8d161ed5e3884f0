"""What Penstock adds under `/penstock/v1/`: progress, dead letters and their replay, pipelines, the OpenAPI document.

Owns the paths and their JSON. Dead letters and pipelines are behind small protocols; a worker that has none of them
answers 404 for their paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from penstock.connect.herder.herder import ConnectRestError, Herder
from penstock.connect.rest.messages import Result, read_object
from penstock.connect.rest.routing import Call, Route

PREFIX: Final = "/penstock/v1"
LETTERS_SHOWN: Final = 100
LETTERS_SHOWN_MAX: Final = 10_000


class DeadLetters(Protocol):
    """Of connectors. Methods may block, and raise ConnectRestError: 404 for a connector without dead letters."""

    def list(self, connector: str, *, limit: int, after: str | None) -> Sequence[Mapping[str, Any]]:
        """The oldest ones that are not done, as JSON; each has an `id`. `after` is the last id of the page before."""
        ...

    def replay(self, connector: str, ids: Sequence[str] | None, *, max_attempts: int | None) -> Mapping[str, Any]:
        """Sends them back to where they came from and marks them done, in one transaction. None: all of them, except
        those that were replayed `max_attempts` times (0: no limit; None: the default, which ids do not have)."""
        ...


class Pipelines(Protocol):
    """The pipelines of `penstock run` that the same engine keeps. Raises ConnectRestError."""

    def list(self) -> Sequence[Mapping[str, Any]]: ...

    def stop(self, name: str) -> Mapping[str, Any]: ...

    def restart(self, name: str) -> Mapping[str, Any]: ...


class PenstockResource:
    def __init__(self, herder: Herder, dead_letters: DeadLetters | None, pipelines: Pipelines | None) -> None:
        self._herder = herder
        self._dead_letters = dead_letters
        self._pipelines = pipelines

    def routes(self) -> list[Route]:
        connector = f"{PREFIX}/connectors/{{connector}}"
        gone = {404: "No such connector"}
        routes = [
            Route("GET", f"{connector}/progress", self.progress,
                  "Records moved, lag, and for RESTARTING the attempt, its cause and the next one",
                  answers={200: "OK", **gone}),
        ]  # fmt: skip
        if self._dead_letters is not None:
            routes += [
                Route("GET", f"{connector}/dead-letters", self.list_letters, "Dead letters that are not done",
                      query={"limit": f"how many, {LETTERS_SHOWN} by default", "after": "an id: those behind it"},
                      answers={200: "OK", **gone}),
                Route("POST", f"{connector}/dead-letters/replay", self.replay,
                      'Send dead letters back: {"ids": [...]} or {"all": true, "max_attempts": 5}', takes_body=True,
                      answers={200: "Sent", 400: "Neither ids nor all", **gone}),
            ]  # fmt: skip
        if self._pipelines is not None:
            pipeline = f"{PREFIX}/pipelines/{{pipeline}}"
            missing = {404: "No such pipeline"}
            routes += [
                Route("GET", f"{PREFIX}/pipelines", self.list_pipelines, "Pipelines of this engine, with their status"),
                Route("GET", pipeline, self.get_pipeline, "A pipeline's status", answers={200: "OK", **missing}),
                Route("PUT", f"{pipeline}/stop", self.stop_pipeline, "Stop it", answers={200: "OK", **missing}),
                Route("POST", f"{pipeline}/restart", self.restart_pipeline, "Restart it",
                      answers={200: "OK", **missing}),
            ]  # fmt: skip
        return routes

    def progress(self, call: Call) -> Result:
        status = self._herder.status(call.names[0])
        tasks = [{"id": task.id, "state": task.state, **task.details} for task in status.tasks]
        return Result({"name": status.name, "state": status.state, **status.details, "tasks": tasks})

    def list_letters(self, call: Call) -> Result:
        assert self._dead_letters is not None
        limit = _limit(call.option("limit"))
        letters = self._dead_letters.list(call.names[0], limit=limit, after=call.option("after"))
        return Result({"dead_letters": [dict(letter) for letter in letters]})

    def replay(self, call: Call) -> Result:
        assert self._dead_letters is not None
        body = read_object(call.content, ("ids", "all", "max_attempts"))
        ids = body.get("ids")
        if (ids is None) == (body.get("all") is not True):
            raise ConnectRestError(400, 'say which dead letters: {"ids": [...]} or {"all": true}')
        if ids is not None and not (isinstance(ids, list) and ids and all(isinstance(each, str) for each in ids)):
            raise ConnectRestError(400, "'ids' is no list of ids, as the list of dead letters shows them")
        attempts = body.get("max_attempts")
        if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 0):
            raise ConnectRestError(400, "'max_attempts' is no number of attempts; 0 is no limit")
        return Result(dict(self._dead_letters.replay(call.names[0], ids, max_attempts=attempts)))

    def list_pipelines(self, _call: Call) -> Result:
        assert self._pipelines is not None
        return Result({"pipelines": [dict(each) for each in self._pipelines.list()]})

    def get_pipeline(self, call: Call) -> Result:
        assert self._pipelines is not None
        for each in self._pipelines.list():
            if each.get("name") == call.names[0]:
                return Result(dict(each))
        raise ConnectRestError(404, f"Pipeline {call.names[0]} not found")

    def stop_pipeline(self, call: Call) -> Result:
        assert self._pipelines is not None
        return Result(dict(self._pipelines.stop(call.names[0])))

    def restart_pipeline(self, call: Call) -> Result:
        assert self._pipelines is not None
        return Result(dict(self._pipelines.restart(call.names[0])))


def _limit(text: str | None) -> int:
    if text is None:
        return LETTERS_SHOWN
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= LETTERS_SHOWN_MAX:
        raise ConnectRestError(400, f"limit={text}: expected a number from 1 to {LETTERS_SHOWN_MAX}")
    return int(text)
