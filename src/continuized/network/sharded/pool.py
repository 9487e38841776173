"""The workers of a sharded problem: started, asked all at once, restarted where one has ended.

Answers are taken in the order of the shards, whichever comes first.  A worker that ended is
started again, reads its rows again, and is asked again: the answer is the same, bit by bit.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.network.sharded.links import LinkEnded, LocalLink, RayLink, WorkerLink
from continuized.network.sharded.shard import name_question
from continuized.network.workers.ray_cluster import RayCluster
from continuized.network.workers.ray_options import Ray
from continuized.network.workers.records import Record
from continuized.problems.base import Array
from continuized.problems.sources import DataError
from continuized.support import threads
from continuized.support import validation as check

MOST_RESTARTS = 3  # of a worker, at one request


class ShardSource(NamedTuple):
    """What a worker is given: its name in sentences, its order and arrays, or a dataset."""

    name: str
    order: dict[str, Any]
    arrays: dict[str, Array]
    dataset: Any = None


class WorkerPool:
    """The workers, one for each source, which take their rows; close it after use.

    threads_each: of a worker; None: they share the cores of this machine.
    """

    def __init__(
        self, sources: Sequence[ShardSource], transport: str | Ray, threads_each: int | None = None
    ) -> None:
        self.sources = sources
        self.transport = "ray" if isinstance(transport, Ray) else transport
        self.restarts = 0
        self.facts: list[Record] = []  # what each shard has, once it is open
        self._lock = threading.RLock()
        self._building: Record | None = None  # the request, once all workers have answered it
        if threads_each is not None:
            self._threads = check.whole(threads_each, "threads", minimum=1, other="None")
        else:
            is_elsewhere = isinstance(transport, Ray) and transport.address is not None
            self._threads = 1 if is_elsewhere else max(1, threads.count() // len(sources))
        self._cluster = None
        if isinstance(transport, Ray):
            transport.check_count(len(sources))
            self._options, self._cluster = transport, RayCluster(transport)
        self._links: list[WorkerLink | None] = [None] * len(sources)
        self._close = weakref.finalize(self, _end_all, self._links, self._cluster)
        with close_on_error(self):
            if self._cluster is not None:
                self._cluster.connect()
            self.facts = self._exchange([self._write_opening(source) for source in sources])

    def __len__(self) -> int:
        return len(self.sources)

    def build(self, plan: dict[str, Any], arrays: dict[str, Array]) -> list[Record]:
        """Let all workers make their regressions; ValueError where the loss has no such y."""
        request = {"build": plan}, arrays
        answers = self._exchange([request] * len(self))
        self._building = request
        return answers

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

    def _write_opening(self, source: ShardSource) -> Record:
        return {"open": {**source.order, "threads": self._threads}}, source.arrays

    def _exchange(self, requests: Sequence[Record]) -> list[Record]:
        """Send each worker its request, then take the answers in order; raise the first error.

        Where this is interrupted, workers that still owe an answer are ended, to be started again
        at the next request: their answer would be taken for another one.
        """
        self._check_open()
        answers: list[Record] = []
        with self._lock:
            try:
                with contextlib.suppress(LinkEnded):  # `_receive` starts it again
                    self._revive([k for k, link in enumerate(self._links) if link is None])
                for number, (link, request) in enumerate(zip(self._links, requests, strict=True)):
                    if link is not None:
                        link.send(request, self._dataset(number, request))
                for number, request in enumerate(requests):
                    answers.append(self._receive(number, request))
            except BaseException:
                for number in range(len(answers), len(self)):
                    self._drop(number)
                raise
        return self._check_answers(range(len(self)), answers)

    def _check_answers(self, numbers: Sequence[int], answers: list[Record]) -> list[Record]:
        """Raise the first error that workers told of."""
        for number, (header, _) in zip(numbers, answers, strict=True):
            if "error" in header:
                raise make_error(header["error"], self.sources[number].name)
        return answers

    def _dataset(self, number: int, request: Record) -> Any:
        return self.sources[number].dataset if "open" in request[0] else None

    def _revive(self, numbers: Sequence[int]) -> list[WorkerLink]:
        """Start these workers, all at once, and take them as far as the others are."""
        try:
            links = [self._start(number) for number in numbers]
            if self.facts:
                openings = [self._write_opening(self.sources[number]) for number in numbers]
                for number, opened in zip(numbers, self._repeat(numbers, openings), strict=True):
                    if not _is_same(opened, self.facts[number]):
                        raise ValueError(
                            f"{self.sources[number].name} was read again after its worker had "
                            "ended, and is not what it was: start the run anew"
                        )
            if self._building is not None:
                self._repeat(numbers, [self._building] * len(numbers))
        except BaseException:
            for number in numbers:
                self._drop(number)
            raise
        return links

    def _repeat(self, numbers: Sequence[int], requests: Sequence[Record]) -> list[Record]:
        """Repeat requests to workers that are started again."""
        links = [link for link in (self._links[number] for number in numbers) if link is not None]
        for number, link, request in zip(numbers, links, requests, strict=True):
            link.send(request, self._dataset(number, request))
        return self._check_answers(numbers, [link.receive() for link in links])

    def _check_open(self) -> None:
        if not self._close.alive:
            raise RuntimeError("the shards are closed: make the problem anew to go on")

    def _start(self, number: int) -> WorkerLink:
        self._check_open()  # another thread may have closed them
        link: WorkerLink
        if self._cluster is None:
            link = LocalLink()
        else:
            link = RayLink(self._cluster.ray, self._options.options_of(number, len(self)))
        self._links[number] = link
        return link

    def _receive(self, number: int, request: Record) -> Record:
        """Take the answer of a worker; one that has ended is started, and asked, again."""
        reason = ""
        for _ in range(MOST_RESTARTS + 1):
            try:
                link = self._links[number]
                if link is None:
                    (link,) = self._revive([number])
                    link.send(request, self._dataset(number, request))
                return link.receive()
            except LinkEnded as error:
                reason = str(error)
                self._drop(number)
                self.restarts += 1
        raise RuntimeError(
            f"the worker of {self.sources[number].name} ended {MOST_RESTARTS + 1} times at the "
            f"same request ({reason}): see its standard error, and whether memory has room for its "
            "rows"
        )

    def _drop(self, number: int) -> None:
        link, self._links[number] = self._links[number], None
        if link is not None:
            link.end()


@contextlib.contextmanager
def close_on_error(pool: WorkerPool) -> Iterator[None]:
    """End the workers if the block raises."""
    try:
        yield
    except BaseException:
        pool.close()
        raise


def _end_all(links: list[WorkerLink | None], cluster: RayCluster | None) -> None:
    for number, link in enumerate(links):
        links[number] = None
        if link is not None:
            link.end()
    if cluster is not None:
        cluster.close()


def _is_same(one: Record, two: Record) -> bool:
    return one[0] == two[0] and all(np.array_equal(one[1][name], two[1][name]) for name in two[1])


def make_error(described: dict[str, Any], name: str) -> Exception:
    """Make the error that a worker told of, with the name of its shard."""
    message = " ".join(described["message"].split())
    if "fact" in described:  # of a file: it names it
        return DataError(described["fact"], described["advice"], described["kind"])
    if "MemoryError" in described["bases"]:
        return MemoryError(f"{name}: memory has no room for it")
    if "OSError" in described["bases"]:
        return OSError(f"{name} cannot be read: {message}")
    for kind in (TypeError, ValueError):
        if kind.__name__ in described["bases"]:
            return kind(f"{name}: {message}")
    return RuntimeError(f"the worker of {name} raised {described['bases'][0]}: {message}")
