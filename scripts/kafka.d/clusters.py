"""The folders of clusters and brokers, and the ports they are given."""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import tempfile
import uuid

from system import Failure, living, locked, replace, stat

TEMPORARY = pathlib.Path(tempfile.gettempdir())
STATE = pathlib.Path(os.environ.get("TIMELY_KAFKA_STATE") or TEMPORARY / f"timely-kafka-{os.getuid()}")
# One for the machine's user, whatever the state folder: it keeps clusters of different test runs apart.
PORT_BOOK = TEMPORARY / f"timely-kafka-ports-{os.getuid()}.json"

HOST = "127.0.0.1"
# Below the range that Linux hands out for outgoing connections, so that no client sits on a broker's port.
PORTS = range(21000, 30000)

# Quick to start and small, rather than fast under load.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",  # the default takes 128 MB of heap
    "log.cleaner.io.buffer.size": "65536",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Cluster:
    """A folder with the facts of a cluster and a folder for each of its brokers."""

    def __init__(self, name, state=STATE):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise Failure(f"cluster name '{name}': letters, digits and, not first, '_', '.', '-' are expected")
        self.name = name
        self.folder = state / name
        self.file = self.folder / "cluster.json"

    def facts(self):
        try:
            return json.loads(self.file.read_text())
        except FileNotFoundError:
            known = ", ".join(cluster.name for cluster in clusters()) or "none"
            raise Failure(f"cluster '{self.name}' does not exist in {STATE} (known: {known})") from None

    def nodes(self):
        return [Node(self, number + 1) for number in range(self.facts()["brokers"])]

    def bootstrap(self):
        facts = self.facts()
        return ",".join(f"{HOST}:{facts['port'] + number}" for number in range(facts["brokers"]))

    def create(self, port, **facts):
        """Writes down all that its brokers read when they start. Clients' ports come first, then controllers'."""
        self.folder.mkdir(parents=True)
        for node in range(1, facts["brokers"] + 1):
            folder = Node(self, node).folder
            folder.mkdir()
            settings = {**self.settings(node, port, facts["brokers"], folder), **facts["config"]}
            (folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in range(1, facts["brokers"] + 1):
            (Node(self, node).folder / "cluster-id").write_text(cluster_id)
        # Last: a cluster exists when this file does.
        replace(self.file, json.dumps({"port": port, "cluster_id": cluster_id, **facts}, indent=2) + "\n")

    def settings(self, node, port, brokers, folder):
        address = f"CLIENT://{HOST}:{port + node - 1}"
        controllers = port + brokers
        copies, in_sync = min(3, brokers), min(2, brokers)
        settings = {
            **SETTINGS,
            "advertised.listeners": address,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{i + 1}@{HOST}:{controllers + i}" for i in range(brokers)),
            "default.replication.factor": copies,
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"{address},CONTROLLER://{HOST}:{controllers + node - 1}",
            "log.dirs": folder / "data",
            "node.id": node,
            "process.roles": "broker,controller",
        }
        for topic in ("offsets.topic", "share.coordinator.state.topic", "transaction.state.log"):
            settings[f"{topic}.replication.factor"] = copies
        for topic in ("share.coordinator.state.topic", "transaction.state.log"):
            settings[f"{topic}.min.isr"] = in_sync
        if brokers == 1:
            settings["controller.quorum.election.timeout.ms"] = 200
        return settings


class Node:
    """One broker, which is a controller too."""

    def __init__(self, cluster, number):
        self.cluster = cluster
        self.number = number
        self.name = f"{cluster.name}/{number}"
        self.folder = cluster.folder / f"node-{number}"

    def process(self):
        """The id of the process that runs this broker, or None if it has ended."""
        try:
            return living((self.folder / "process").read_text())
        except FileNotFoundError:
            return None

    def log(self):
        """The log file, which brokers of one process share."""
        return self.folder / "log"

    def log_end(self):
        with contextlib.suppress(FileNotFoundError):
            lines = self.log().read_text(errors="replace").splitlines()
            lines = [line for line in lines if "Completed request" not in line]
            return f"end of {self.log()}:\n" + "\n".join(lines[-30:])
        return f"{self.log()} does not exist"

    def state(self):
        process = self.process()
        if process is None:
            return "down"
        if stat(process)[0] == "T":
            return "paused"
        return "up" if (self.folder / "ready").exists() else "starting"


def clusters():
    return [Cluster(file.parent.name) for file in sorted(STATE.glob("*/cluster.json"))]


def named(names):
    """The nodes that the names stand for; every node if there are none."""
    if not names:
        return [node for cluster in clusters() for node in cluster.nodes()]
    nodes = []
    for name in names:
        cluster, slash, number = name.partition("/")
        found = [node for node in Cluster(cluster).nodes() if not slash or str(node.number) == number]
        if not found:
            raise Failure(f"cluster '{cluster}' has no broker '{number}'")
        nodes += found
    return nodes


def free_ports(count, book):
    """The first of `count` ports in a row that are free and in no cluster's name."""
    first = PORTS.start
    while first + count <= PORTS.stop:
        used = [port for port in range(first, first + count) if str(port) in book or not can_bind(port)]
        if not used:
            return first
        first = used[-1] + 1
    raise Failure(f"no {count} ports in a row are free between {PORTS.start} and {PORTS.stop - 1}")


def can_bind(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return True
    return False


def read_book():
    """Which cluster's file each port was given to. A cluster that is down keeps its ports, unseen by binding."""
    try:
        book = json.loads(PORT_BOOK.read_text())
    except (FileNotFoundError, ValueError):
        book = {}
    return {port: file for port, file in book.items() if pathlib.Path(file).exists()}


def create_clusters(names, options):
    """Lays out those that do not exist yet, with ports of their own."""
    new = [cluster for cluster in map(Cluster, names) if not cluster.file.exists()]
    if len(new) < len(set(names)) and (options.config or options.brokers != 1):
        old = ", ".join(sorted(set(names) - {cluster.name for cluster in new}))
        raise Failure(f"cluster {old} exists and keeps its settings until 'remove': no --config, no --brokers")
    config = {}
    for setting in options.config:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise Failure(f"--config '{setting}': KEY=VALUE is expected")
        config[key] = value
    with locked(PORT_BOOK.with_suffix(".lock")):
        book = read_book()
        for cluster in new:
            count = 2 * options.brokers
            port = free_ports(count, book)
            # A torn layout of an interrupted start.
            shutil.rmtree(cluster.folder, ignore_errors=True)
            cluster.create(port, brokers=options.brokers, config=config, log_requests=options.log_requests)
            book.update((str(port + i), str(cluster.file)) for i in range(count))
        replace(PORT_BOOK, json.dumps(book))


def replace_stored(names):
    """Lays out other clusters in the place of these: with the same ports and settings, and another id."""
    # Locked, since a cluster that does not exist for a moment has no ports.
    with locked(PORT_BOOK.with_suffix(".lock")):
        for cluster in map(Cluster, names):
            facts = cluster.facts()
            del facts["cluster_id"]
            shutil.rmtree(cluster.folder)
            cluster.create(**facts)
