"""A policy at work: what a viewer changes happens, and nobody but its own page is heard."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.rendering.web import server as module
from gmc_bench.rendering.web.live import Contestant, LiveSimulation
from gmc_bench.rendering.web.server import MAX_VIEWERS, LiveServer


def contestant(subject, title="toy"):
    session = SimpleNamespace(
        method=SimpleNamespace(title=title, id="toy", capabilities=SimpleNamespace(per_body=False)),
        task=subject.task,
        bodies=SimpleNamespace(split=lambda _: subject.bodies),
        config=SimpleNamespace(seed=4),
    )
    return Contestant(session=session, policy=subject.policy)


@pytest.fixture
def simulation(subject):
    return LiveSimulation([contestant(subject), contestant(subject, "other")])


@pytest.mark.parametrize(
    ("per_body", "tested", "names"),
    [
        (False, 1, ["biped"]),
        (True, 1, ["chain-3", "star-4"]),  # it has weights for the train bodies only
        (False, 0, ["chain-3", "star-4"]),
    ],
)
def test_policies_control_the_test_bodies_if_they_can(subject, per_body, tested, names):
    *train, test = subject.bodies
    one = contestant(subject)
    one.session.bodies = SimpleNamespace(split={"train": train, "test": [test][:tested]}.get)
    one.session.method.capabilities.per_body = per_body
    assert [body.name for body in one.bodies] == names


def run(simulation, steps):
    for _ in range(steps):
        simulation.step()
    return simulation.frame()


def test_policies_are_those_of_the_runs(subject, monkeypatch):
    def experiment(path):
        one = contestant(subject, path.name)
        config = SimpleNamespace(untrained=path.name == "first" or None)
        return SimpleNamespace(session=one.session, policy=one.policy, config=config)

    monkeypatch.setattr(Experiment, "open", experiment)
    simulation = LiveSimulation.of_runs([Path("trained"), Path("first")], body="biped")
    assert simulation.scene["title"] == "biped"
    assert simulation.scene["facts"].startswith("trained, ")
    simulation.change({"policy": 1})
    assert simulation.scene["facts"].startswith("first untrained, ")


def test_steps_are_those_of_the_simulator_and_episodes_follow_each_other(simulation):
    start = simulation.frame()
    assert (start["step"], start["total"], start["number"]) == (0, 0.0, 1)
    assert len(start["places"]) == simulation.scene["bodies"] == 3  # of the chain
    frame = run(simulation, 5)
    assert (frame["step"], frame["time"]) == (5, pytest.approx(0.1))
    torso = simulation._core.simulator.data(0).qpos[:3]
    np.testing.assert_allclose(frame["places"][0], torso, atol=1e-4)
    assert run(simulation, 60)["step"] < 60  # the horizon
    assert simulation.scene["number"] == 1  # the same body on the same ground


def test_the_speed_is_that_of_the_last_half_second(subject):
    subject.task = replace(subject.task, terminations=())
    simulation = LiveSimulation([contestant(subject)])
    places = [simulation._core.simulator.torso_position[0, 0]]
    assert simulation.frame()["speed"] == 0.0
    for _ in range(40):
        simulation.step()
        places.append(simulation._core.simulator.torso_position[0, 0])
        frame, past = simulation.frame(), places[-26:]
        expected = (past[-1] - past[0]) / (0.02 * (len(past) - 1))
        assert frame["speed"] == pytest.approx(expected)


def test_controls_change_the_simulation(simulation):
    before = simulation._core.simulator.data(0).qvel.copy()
    simulation.change({"push": [2.0, -1.5]})
    pushed = simulation._core.simulator.data(0).qvel - before
    np.testing.assert_allclose(pushed[:3], [2.0, -1.5, 0.0])
    simulation.change({"friction": 0.1})
    model = simulation._core.simulator.model(0)
    assert set(model.geom_friction[:, 0].round(6)) == {0.07}
    simulation.change({"friction": 0.5})
    assert set(model.geom_friction[:, 0].round(6)) == {0.35}
    simulation.change({"body": 2})
    assert simulation.scene["title"] == "biped"
    assert set(simulation._core.simulator.model(0).geom_friction[:, 0].round(6)) == {0.35}
    simulation.change({"policy": 1})
    assert simulation.scene["facts"].startswith("other")
    assert simulation.scene["title"] == "biped"
    simulation.change({"speed": 2})
    simulation.change({"playing": False})
    assert (simulation.speed, simulation.playing) == (2.0, False)
    frame = run(simulation, 3)
    assert frame["settings"] == {"playing": False, "speed": 2.0, "friction": 0.5}
    assert frame["total"] != 0.0
    simulation.change({"restart": True})
    frame = simulation.frame()
    assert (frame["step"], frame["total"]) == (0, 0.0)


def test_another_policy_gets_the_same_body_where_it_knows_it(subject):
    other = contestant(subject, "other")
    other.session.bodies = SimpleNamespace(split=lambda _: subject.bodies[::-1])
    simulation = LiveSimulation([contestant(subject), other], body="biped")
    simulation.change({"policy": 1})
    assert (simulation.scene["title"], simulation.scene["body"]) == ("biped", 0)
    simulation.change({"policy": 0})
    assert (simulation.scene["title"], simulation.scene["body"]) == ("biped", 2)
    other.session.bodies = SimpleNamespace(split=lambda _: subject.bodies[:2])
    simulation.change({"policy": 1})
    assert (simulation.scene["title"], simulation.scene["body"]) == ("chain-3", 0)


@pytest.mark.parametrize(
    "controls",
    [
        {}, {"body": 3}, {"body": -1}, {"body": "0"}, {"policy": 2}, {"speed": 0},
        {"speed": float("nan")}, {"friction": 1e9}, {"push": [9, 0]}, {"push": [0]},
        {"push": "up"}, {"playing": 1}, {"format": "disk"}, {"body": True}, {"policy": False},
        {"speed": True}, {"friction": True}, {"push": [True, 0]}, {"push": [10**400, 0]},
        {"push": [2.9, 2.9]}, {"speed": 10**400}, {"body": 10**400},
    ],
)  # fmt: skip
def test_other_controls_are_refused(simulation, controls):
    with pytest.raises(ConfigError, match="cannot be done"):
        simulation.change(controls)


def test_an_unknown_body_is_refused(subject):
    with pytest.raises(ConfigError, match="did you mean 'biped'"):
        LiveSimulation([contestant(subject)], body="bipet")


@pytest.fixture
def server(simulation):
    found = LiveServer(simulation, port=0)
    thread = threading.Thread(target=found.serve)
    thread.start()
    yield found
    found.close()
    thread.join(10)
    assert not thread.is_alive()


def ask(server, method="GET", path="/", body=None, **headers):
    """Return the status and the content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, given)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_only_pages_of_this_machine_are_served(server):
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server)[0] == ask(server, Host=f"localhost:{server.port}")[0] == 200
    controls = {"body": b'{"speed": 2}', "Content_Type": "application/json"}
    assert ask(server, "POST", "/control", Origin=own, **controls)[0] == 204
    strangers = (
        {"Host": "robots.example"},  # a name that was let point here
        {"Host": f"robots.example:{server.port}"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Origin": "http://robots.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{server.port}"},
        {"Origin": f"http://127.0.0.1:{server.port}.robots.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},  # another port of this machine
    )
    for headers in strangers:
        for path in ("/", "/events"):
            assert ask(server, path=path, **headers) == (403, b""), headers
        assert ask(server, "POST", "/control", **controls, **headers)[0] == 403, headers
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        hosts = f"Host: 127.0.0.1:{server.port}\r\nHost: robots.example\r\n"
        raw.sendall(f"GET / HTTP/1.1\r\n{hosts}\r\n".encode())
        assert b" 403 " in raw.recv(100)
    # Nobody reaches it over the network.
    assert server._http.server_address[0] == "127.0.0.1"


def test_what_is_not_asked_properly_changes_nothing(server):
    json_type = {"Content_Type": "application/json"}
    assert ask(server, path="/../etc/passwd")[0] == 404
    assert ask(server, "POST", "/control", b'{"speed": 2}', Content_Type="text/plain")[0] == 404
    assert ask(server, "POST", "/control", b"[1]", **json_type)[0] == 400
    assert ask(server, "POST", "/control", b"{" * 900, **json_type)[0] == 400
    assert ask(server, "POST", "/control", b" " * 2000, **json_type)[0] == 413
    assert ask(server, "OPTIONS", "/control")[0] == 501  # so that nobody elsewhere is let in
    assert ask(server, "POST", "/control", b'{"speed": -1}', **json_type)[0] == 204
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        kind = f"Host: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        raw.sendall(
            f"POST /control HTTP/1.1\r\n{kind}Content-Length: {'9' * 5000}\r\n\r\n".encode()
        )
        assert b" 413 " in raw.recv(100)
    assert server._simulation.speed == 1.0


def head_of(server, path):
    """Return an answer whose content is not read, because it may have no end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    connection.close()
    return answer


@pytest.mark.parametrize("path", ["/", "/events"])
def test_no_other_page_can_hold_or_keep_it(server, path):
    assert (
        dict(head_of(server, path).getheaders()).items()
        >= {
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items()
    )


def test_viewers_beyond_the_limit_are_sent_away(server):
    assert MAX_VIEWERS < 6  # the connections that one browser opens to a server
    with ExitStack() as viewers:
        assert all(viewers.enter_context(server.viewing()) for _ in range(MAX_VIEWERS))
        assert head_of(server, "/events").status == 503
    with server.viewing() as room:
        assert room


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_time_passes_at_the_speed_that_is_set(monkeypatch, speed):
    now, steps = 0.0, 0

    def step():
        nonlocal steps
        steps += 1

    def wait(seconds):
        nonlocal now
        now += seconds

    shown = SimpleNamespace(
        step=step, control_dt=0.02, speed=speed, playing=True, number=1, scene={}, frame=dict
    )
    server = LiveServer(shown, port=0)
    server._http.server_close()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(server, "_over", SimpleNamespace(is_set=lambda: now >= 2.0, wait=wait))
    with server.viewing():
        server._simulate()
    assert steps == pytest.approx(2.0 * speed / 0.02, abs=1)


@pytest.mark.timeout(60)
def test_time_passes_while_somebody_looks(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    seen = []
    while len(seen) < 3:
        line = answer.readline().decode()
        assert line
        if line.startswith("data: "):
            seen.append(json.loads(line.removeprefix("data: ")))
    connection.close()
    scene, first, second = seen
    assert scene["title"] == "chain-3"
    assert {shape["kind"] for shape in scene["shapes"]} == {"box", "capsule", "sphere"}
    assert first["number"] == second["number"] == scene["number"]
    assert second["step"] > first["step"]


def test_a_port_in_use_is_refused(server, simulation):
    with pytest.raises(ConfigError, match=f"port {server.port} .* cannot be used"):
        LiveServer(simulation, server.port)
