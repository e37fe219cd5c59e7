"""The test run itself: no test reaches another machine."""

import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.org"])
def test_other_machines_cannot_be_reached(host):
    with pytest.raises(RuntimeError, match="must not use the network"):
        socket.create_connection((host, 80), timeout=0.1)


def test_datagrams_stay_here_too():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        pytest.raises(RuntimeError, match="must not use the network"),
    ):
        sender.sendto(b"", ("192.0.2.1", 9))


def test_this_machine_can():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
