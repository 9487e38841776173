"""The Ray of a run: one that it starts on this machine, or one that it joins."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any

from continuized.network.workers import ray_watch
from continuized.network.workers.frames import HOST
from continuized.network.workers.ray_options import Ray
from continuized.support.progress import warn_caller

NAMESPACE = "continuized"
ANSWER_WITHIN = 5.0  # seconds for a cluster's address; Ray itself would try for minutes

# On one machine Ray stays on 127.0.0.1, and tells no one that it runs.
_QUIET = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def import_ray() -> Any:
    """Import Ray; ImportError, with what to install, where it is missing."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            'transport="ray" needs Ray, which is not installed: pip install "continuized[ray]"',
            name="ray",
        ) from error
    return ray


class RayCluster:
    """Starts Ray or joins a cluster, and ends what it started.

    `ray` is the module of Ray.
    """

    def __init__(self, options: Ray) -> None:
        self.ray = import_ray()
        self._address = options.address
        self._ours = False
        self._watch: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Start Ray, or join a cluster, unless this process has already."""
        address = self._address
        if self.ray.is_initialized():
            here = self.ray.get_runtime_context().gcs_address
            if address not in (None, "auto", here):
                warn_caller(
                    f"this process is in the Ray cluster at {here} already: address={address!r} is "
                    "not used; call ray.shutdown() first to join another",
                    RuntimeWarning,
                )
        elif address is None:
            self._start_own()
        else:
            self._join(address)

    def _start_own(self) -> None:
        """Start a cluster of this machine, which ends with this process, however that ends."""
        own: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": HOST}
        try:
            if sys.platform == "linux":
                own["_temp_dir"] = self._start_watch()
            self._init(address="local", **own)
        except Exception as error:
            raise RuntimeError(
                f"Ray did not start on this machine ({first_line(error)}); see whether "
                '`ray.init()` works by itself, or give transport="local"'
            ) from error
        host = str(self.ray.get_runtime_context().gcs_address).rpartition(":")[0]
        if host != HOST:
            raise RuntimeError(
                f"Ray listens at {host}, where others may reach it, and not at {HOST} as asked: it "
                "was ended; set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before Ray is imported"
            )

    def _start_watch(self) -> str:
        """Make a folder for Ray, and start what ends its processes; return the folder."""
        # Short, for the names of sockets in it may have 107 letters.
        folder = tempfile.mkdtemp(prefix="cz-ray-", dir=os.environ.get("RAY_TMPDIR", "/tmp"))
        self._watch = subprocess.Popen(
            [sys.executable, "-P", ray_watch.__file__, folder],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is not for it
        )
        return folder

    def _join(self, address: str) -> None:
        """Join a cluster; ConnectionError, with what may be the reason, where that fails."""
        host, _, port = address.rpartition(":")
        try:
            if host and port.isdigit() and "/" not in host:
                with socket.create_connection((host.strip("[]"), int(port)), ANSWER_WITHIN):
                    pass
            self._init(address=address)
        except Exception as error:
            raise ConnectionError(
                f"the Ray cluster at {address!r} cannot be joined ({first_line(error)}); give "
                "the address that `ray start --head` tells, which may not be 127.0.0.1, and if the "
                "cluster wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to it (the file "
                "~/.ray/auth_token where `ray start` was called)"
            ) from error

    def _init(self, **where: Any) -> None:
        self.ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level="error", **where)
        self._ours = True

    def close(self) -> None:
        """End the cluster, if it was started here, or leave it.  May be called more than once."""
        if self._ours and self.ray.is_initialized():
            self._ours = False
            self.ray.shutdown()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.communicate()  # it ends what is left


def kill_actor(ray: Any, actor: Any) -> None:
    """End an actor for good; it may have ended by itself."""
    with contextlib.suppress(ray.exceptions.RayError):
        ray.kill(actor, no_restart=True)


def first_line(error: Exception) -> str:
    """Take the first line of what Ray says."""
    return f"{type(error).__name__}: " + str(error).strip().split("\n", 1)[0].rstrip(".")
