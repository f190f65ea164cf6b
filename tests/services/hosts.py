"""Network hosts on this machine: namespaces with addresses of their own, joined by a bridge; cables can be pulled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.availability import give_up

_SUBNET = "10.83.0"


@dataclass(frozen=True)
class Hosts:
    """Hosts by number; host i has the address `address(i)`."""

    prefix: str
    log_folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def address(self, number: int) -> str:
        return f"{_SUBNET}.{10 + number}"

    def command(self, number: int, *command: str) -> list[str]:
        """A command as it runs on a host."""
        return ["nsenter", f"--net=/run/netns/{self.prefix}{number}", *command]

    def start(self, number: int, *command: str, environment: dict[str, str]) -> None:
        """Let a command run on a host until the hosts are gone."""
        with (self.log_folder / f"host-{number}.log").open("ab") as log:
            process = subprocess.Popen(self.command(number, *command), stdout=log, stderr=log, env=environment)
        self.processes.append(process)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def pull_cable(self, number: int) -> None:
        _ip("-n", f"{self.prefix}bridge", "link", "set", f"cable{number}", "down")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextmanager
def run_hosts(n_hosts: int, log_folder: Path) -> Iterator[Hosts]:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        give_up("no network namespaces: they need root, and the Debian packages iproute2 and util-linux")
    hosts = Hosts(f"treesim{os.getpid()}-", log_folder)
    bridge = f"{hosts.prefix}bridge"
    with ExitStack() as stack:
        _add_namespace(stack, bridge)
        _ip("-n", bridge, "link", "add", "switch", "type", "bridge")
        _ip("-n", bridge, "link", "set", "switch", "up")
        for number in range(n_hosts):
            name, cable = f"{hosts.prefix}{number}", f"cable{number}"
            _add_namespace(stack, name)
            _ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", cable, "netns", bridge)
            _ip("-n", bridge, "link", "set", cable, "master", "switch", "up")
            _ip("-n", name, "addr", "add", f"{hosts.address(number)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        stack.callback(hosts.stop)
        yield hosts


def _add_namespace(stack: ExitStack, name: str) -> None:
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        give_up(f"no network namespaces: ip netns add failed: {error.stderr.strip()}")
    stack.callback(_remove_namespace, name)


def _remove_namespace(name: str) -> None:
    """Remove a namespace made here, and what still runs in it."""
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "del", name)
