"""`transport=`: processes of this machine, or `network.Ray`, where and with what Ray runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from continuized.support import validation as check

TRANSPORTS = ("local", "ray")


@dataclass(frozen=True)
class Ray:
    """Actors of Ray as the transport of a run: `network.run(..., transport=network.Ray(...))`.

    What is given here is passed on to Ray, which says what it means.  transport="ray" is Ray().

    Parameters
    ----------
    address : str, optional
        Of a running cluster whose machines have this package, such as "10.0.0.5:6379" (the one
        that `ray start --head` tells) or, on one of its machines, "auto".  The cluster stays when
        the run ends.  By default a cluster of this machine is started, and ended with the run.
    num_cpus, num_gpus : float
        That each process takes.  By default no CPU; with a scheduling strategy, which Ray does not
        heed for actors that ask for nothing, what Ray asks for by default: one to be placed, none
        to run.
    resources : dict, or a list with one for each process
        Further resources by their names, such as {"site_a": 1}: a list sends the nodes of the
        first process to a machine that has the first, and so on.
    scheduling_strategy : str or object of Ray, or a list with one for each process
        "SPREAD" deals the processes out to the machines; or an object such as
        NodeAffinitySchedulingStrategy.  A placement group has the first process in its first
        bundle, and so on, from the first again after the last.
    runtime_env : dict, optional
        The environment of each process: env_vars, pip, py_modules and so on.

    Examples
    --------
    >>> Ray(resources=[{"site_a": 1}, {"site_b": 1}]).options_of(1, 2)["resources"]
    {'site_b': 1}
    """

    address: str | None = None
    num_cpus: float | None = None
    num_gpus: float = 0.0
    resources: Any = None
    scheduling_strategy: Any = None
    runtime_env: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.address is not None:
            check.instance(self.address, "address", str, "the address of a cluster or None")
        if self.num_cpus is not None:
            check.real(self.num_cpus, "num_cpus", minimum=0.0, other="None")
        check.real(self.num_gpus, "num_gpus", minimum=0.0)
        listed = self.resources if isinstance(self.resources, list) else [self.resources]
        for each in listed:
            what = "a dict {name: amount}, a list of them or None"
            check.instance(each, "resources", Mapping | None, what)
            for name, amount in (each or {}).items():
                check.instance(name, "resources", str, "a dict with names of resources")
                check.real(amount, f"resources[{name!r}]", minimum=0.0)
        if self.runtime_env is not None:
            check.instance(self.runtime_env, "runtime_env", Mapping, "a dict or None")

    def check_count(self, count: int) -> None:
        """Refuse lists that are not as long as there are processes."""
        for name in ("resources", "scheduling_strategy"):
            given = getattr(self, name)
            if isinstance(given, list) and len(given) != count:
                raise ValueError(
                    f"{name} has {len(given)} entries for {count} processes: give one for each"
                )

    def resources_of(self, worker: int, count: int) -> dict[str, float]:
        """Return all that a worker asks for, by the names that Ray has for it."""
        options = self.options_of(worker, count)
        counted = {"CPU": options.get("num_cpus", 0.0), "GPU": options.get("num_gpus", 0.0)}
        return {**{k: n for k, n in counted.items() if n}, **options.get("resources", {})}

    def options_of(self, worker: int, count: int) -> dict[str, Any]:
        """Return the options with which a worker, one of `count`, becomes an actor."""
        self.check_count(count)
        # What is left out is not the same as 0: an actor that names a resource holds a CPU.
        options: dict[str, Any] = {"num_gpus": self.num_gpus} if self.num_gpus else {}
        resources, strategy = (
            given[worker] if isinstance(given, list) else given
            for given in (self.resources, self.scheduling_strategy)
        )
        if resources:
            options["resources"] = dict(resources)
        if hasattr(strategy, "bundle_specs"):
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            bundle = worker % len(strategy.bundle_specs)
            strategy = PlacementGroupSchedulingStrategy(
                strategy, placement_group_bundle_index=bundle
            )
        if strategy is not None:
            options["scheduling_strategy"] = strategy
        if self.num_cpus is not None or strategy is None:
            options["num_cpus"] = self.num_cpus or 0.0
        if self.runtime_env is not None:
            options["runtime_env"] = dict(self.runtime_env)
        return options


def as_transport(transport: Any, address: str | None, port: int | None) -> str | Ray:
    """Return "local", or the options of Ray; refuse what is for the other."""
    if not isinstance(transport, Ray):
        check.one_of(transport, "transport", TRANSPORTS, other="network.Ray(...)")
        if transport == "local":
            if address is not None:
                raise ValueError('address= is for transport="ray"')
            return "local"
        options = Ray(address)
    else:
        options = transport
        if address is not None:
            raise ValueError("give the address to network.Ray(address=...), and not to address=")
    if port is not None:
        raise ValueError('port= is for transport="local"; Ray chooses its own')
    return options
