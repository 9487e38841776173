"""The workers of a sharded problem: started, asked all at once, restarted where one has ended.

Answers are taken in the order of the shards, whichever comes first.  A worker that ended is
started again, reads its rows again, and is asked again: the answer is the same, bit by bit.
"""

from __future__ import annotations

import builtins
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.network.runtime.ray_options import Ray
from continuized.network.runtime.wire_format import Record
from continuized.network.sharded.links import Link, LinkEnded, LocalLink, RayCluster
from continuized.network.sharded.shard import name_question
from continuized.problems.base import Array
from continuized.problems.sources import DataError
from continuized.support import threads

MOST_RESTARTS = 3  # of a worker, at one request


class Part(NamedTuple):
    """What a worker is given: its name in sentences, its order and arrays, or a dataset."""

    name: str
    order: dict[str, Any]
    arrays: dict[str, Array]
    dataset: Any = None


class Shards:
    """The workers, one for each part."""

    def __init__(self, parts: Sequence[Part], transport: str | Ray, most: int | None) -> None:
        self.parts = parts
        self.transport = "ray" if isinstance(transport, Ray) else transport
        self.restarts = 0
        self.facts: list[Record] = []  # what each shard has, once it is open
        self._lock = threading.RLock()
        self._settling: Record | None = None
        self._settled: list[Record] = []
        if most is None:
            is_elsewhere = isinstance(transport, Ray) and transport.address is not None
            most = 1 if is_elsewhere else max(1, threads.count() // len(parts))
        self._threads = most
        self._cluster = RayCluster(transport, len(parts)) if isinstance(transport, Ray) else None
        self._links: list[Link | None] = [None] * len(parts)
        self._close = weakref.finalize(self, _end_all, self._links, self._cluster)
        try:
            self.facts = self._exchange([self._write_opening(part) for part in self.parts])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self.parts)

    def settle(self, plan: dict[str, Any], arrays: dict[str, Array]) -> list[Record]:
        """Let all workers make their regressions; ValueError where the loss has no such y."""
        self._settling = {"settle": plan}, arrays
        self._settled = self._exchange([self._settling] * len(self))
        return self._settled

    def ask(
        self, question: Callable[..., Any], arguments: Sequence[Any], index: Sequence[Array] | None
    ) -> list[tuple[Array, ...]]:
        """Ask all workers a question, and return their answers in the order of the shards.

        index: for each shard, the numbers of the rows it is to answer for, counted in it.
        """
        header: dict[str, Any] = {"ask": name_question(question), "with": []}
        arrays: dict[str, Array] = {}
        for k, each in enumerate(arguments):
            if isinstance(each, np.ndarray):
                arrays[f"a{k}"] = each
                each = [f"a{k}"]
            header["with"].append(each)
        requests = [(header, arrays)] * len(self)
        if index is not None:
            requests = [(header, {**arrays, "index": rows}) for rows in index]
        return [tuple(found.values()) for _, found in self._exchange(requests)]

    def close(self) -> None:
        """End all workers.  May be called at any time, and more than once."""
        self._close()

    def _write_opening(self, part: Part) -> Record:
        return {"open": {**part.order, "threads": self._threads}}, part.arrays

    def _exchange(self, requests: Sequence[Record]) -> list[Record]:
        """Send each worker its request, then take the answers in order; raise the first error.

        Where this is interrupted, workers that still owe an answer are ended, to be started again
        at the next request: their answer would be taken for another one.
        """
        self._check_open()
        answers: list[Record] = []
        with self._lock:
            try:
                for number, request in enumerate(requests):
                    self._send(number, request)
                for number, request in enumerate(requests):
                    answers.append(self._receive(number, request))
            except BaseException:
                for number in range(len(answers), len(self)):
                    self._drop(number)
                raise
        for part, (header, _) in zip(self.parts, answers, strict=True):
            if "error" in header:
                raise make_error(header["error"], part.name)
        return answers

    def _send(self, number: int, request: Record) -> None:
        try:
            self._link(number).send(request, self._dataset(number, request))
        except LinkEnded:  # as it started: `_receive` tries again
            self._drop(number)

    def _dataset(self, number: int, request: Record) -> Any:
        return self.parts[number].dataset if "open" in request[0] else None

    def _link(self, number: int) -> Link:
        """Return the link to a worker; start it, if there is none, as far as the others are."""
        link = self._links[number]
        if link is None:
            link = self._start(number)
            if self.facts:
                part = self.parts[number]
                opened = self._repeat(link, number, self._write_opening(part))
                if not _is_same(opened, self.facts[number]):
                    raise ValueError(
                        f"{part.name} was read again after its worker had ended, and is not what "
                        "it was: start the run anew"
                    )
            if self._settled:
                assert self._settling is not None
                self._repeat(link, number, self._settling)
        return link

    def _check_open(self) -> None:
        if not self._close.alive:
            raise RuntimeError("the shards are closed: make the problem anew to go on")

    def _start(self, number: int) -> Link:
        self._check_open()  # another thread may have closed them
        link: Link = LocalLink() if self._cluster is None else self._cluster.link(number)
        self._links[number] = link
        return link

    def _repeat(self, link: Link, number: int, request: Record) -> Record:
        link.send(request, self._dataset(number, request))
        answer = link.receive()
        if "error" in answer[0]:
            raise make_error(answer[0]["error"], self.parts[number].name)
        return answer

    def _receive(self, number: int, request: Record) -> Record:
        """Take the answer of a worker; one that has ended is started, and asked, again."""
        reason = ""
        for _ in range(MOST_RESTARTS + 1):
            try:
                link = self._links[number]
                if link is None:
                    link = self._link(number)
                    link.send(request, self._dataset(number, request))
                return link.receive()
            except LinkEnded as error:
                reason = str(error)
                self._drop(number)
                self.restarts += 1
        raise RuntimeError(
            f"the worker of {self.parts[number].name} ended {MOST_RESTARTS + 1} times at the same "
            f"request ({reason}): see its standard error, and whether memory has room for its rows"
        )

    def _drop(self, number: int) -> None:
        link, self._links[number] = self._links[number], None
        if link is not None:
            link.end(at_once=True)


def _end_all(links: list[Link | None], cluster: RayCluster | None) -> None:
    for number, link in enumerate(links):
        links[number] = None
        if link is not None:
            link.end(at_once=True)
    if cluster is not None:
        cluster.close()


def _is_same(one: Record, two: Record) -> bool:
    return one[0] == two[0] and all(np.array_equal(one[1][name], two[1][name]) for name in two[1])


def make_error(told: dict[str, str], name: str) -> Exception:
    """Make the error that a worker told of, with the name of its shard."""
    kind, message = told["type"], " ".join(told["message"].split())
    if "fact" in told:  # of a file: it names it
        return DataError(told["fact"], told["advice"], told["kind"])
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, ValueError | TypeError | MemoryError):
        return known(f"{name}: {message or 'memory has no room'}")
    if isinstance(known, type) and issubclass(known, OSError):
        return known(f"{name} cannot be read: {message}")
    return RuntimeError(f"the worker of {name} raised {kind}: {message}")
