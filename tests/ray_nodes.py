"""Two nodes of a Ray cluster on this machine, for tests that use or kill them."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from slotwise.workers.ray_connection import answers

# A process of its own: Ray warns, forks and keeps threads, none of which these tests are about.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
port, cores, memory = map(int, sys.argv[1:])
node = {"num_cpus": cores, **({"object_store_memory": memory} if memory else {})}
head = {"include_dashboard": False, "ray_client_server_port": port}
cluster = Cluster(initialize_head=True, head_node_args={**node, **head})
second = cluster.add_node(**node)
def pids(node, *kinds):
    return [started.process.pid for kind in kinds for started in node.all_processes[kind]]
found = pids(second, "raylet") + pids(cluster.head_node, "gcs_server", "ray_client_server")
print("cluster", cluster.address, *found, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class TwoNodes(NamedTuple):
    address: str
    second: int
    """The process that is the second node."""
    head: list[int]
    """The processes that are the head."""
    client: str
    """The address for clients."""


@contextmanager
def two_nodes(cores: int, memory: int = 0) -> Iterator[TwoNodes]:
    """Start two nodes with so many cores each, and so many bytes for objects if they are given."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(port), str(cores), str(memory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        words = next(line.split() for line in process.stdout or () if line.startswith("cluster "))
        second, *head = map(int, words[2:])
        await_clients_server(port)
        yield TwoNodes(words[1], second, head, f"ray://127.0.0.1:{port}")
    finally:
        process.communicate(timeout=120)


def await_clients_server(port: int) -> None:
    """It comes up some time after the cluster does."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if answers(f"127.0.0.1:{port}"):
            return
        time.sleep(0.2)
    pytest.fail("no server for clients")
