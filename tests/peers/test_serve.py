"""The web service: its endpoints, its page in a real browser, and what it does under load."""

import base64
import concurrent.futures
import http.client
import io
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import numpy
import pytest
from browser import Browser
from PIL import Image
from test_images import ByColour, MeanColour, save_model, scene

REQUESTS = int(os.environ.get("DOWNHAUL_LOAD_REQUESTS", "1500"))
CLIENTS = 16


class Server:
    def __init__(self, downhaul, *arguments):
        self.process = subprocess.Popen([downhaul.path, "serve", *map(str, arguments), "--port", "0"],
                                        stdout=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.strip())
            if line.startswith("serving on "):
                self.url = line.split()[-1]
                self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])
                return
        raise AssertionError(f"the server ended: {self.said}")

    def request(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def resident_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def png(image):
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


BOX = (100, 60, 300, 120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    save_model(folder / "cut", ByColour(), 64, 64, ["background", "fire", "leaf"], resize=[64, 64], letterbox=True)
    save_model(folder / "name", MeanColour(), 16, 16, ["red", "green", "blue"], resize=[16, 16])
    for name in ("cut", "name"):
        path = folder / name / "model_spec.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"name": name}))
    scene(400, 240, BOX).save(folder / "photo.png")
    return folder


@pytest.fixture(scope="module")
def server(downhaul, folder):
    server = Server(downhaul, folder / "cut" / "model_spec.json", folder / "name" / "model.pt2", "--deadline", "3",
                    "--max-body", "1")
    yield server
    assert server.stop() == 0


def test_models_are_listed_with_their_forms(server):
    status, body = server.request("GET", "/api/models")
    assert status == 200
    models = {m["name"]: m for m in json.loads(body)["models"]}
    assert models["cut"]["task"] == "segment" and models["name"]["task"] == "classify"
    assert [f["kind"] for f in models["cut"]["fields"]] == ["image", "text"]


def test_photos_are_cut_out_and_classified(server, folder):
    photo = (folder / "photo.png").read_bytes()
    status, body = server.request("POST", "/api/run/cut", photo, {"Content-Type": "image/png"})
    answer = json.loads(body)
    assert status == 200 and answer["text"] == "Selected class: leaf (2)"
    cut = Image.open(io.BytesIO(base64.b64decode(answer["pictures"][0]["png"])))
    assert cut.size == (400, 240) and cut.mode == "RGBA"
    assert numpy.asarray(cut)[90, 200, 3] == 255 and numpy.asarray(cut)[10, 10, 3] == 0
    status, body = server.request("POST", "/api/run/name?top=1", png(Image.new("RGB", (9, 9), (0, 0, 255))))
    assert [i["label"] for i in json.loads(body)["items"]] == ["blue"]


def test_faults_of_the_client_are_named(server):
    for method, path, body, expected in [
            ("POST", "/api/run/cut", b"", 400), ("POST", "/api/run/cut", b"no picture", 400),
            ("POST", "/api/run/cut?class=unicorn", png(Image.new("RGB", (8, 8))), 400),
            ("POST", "/api/run/nothing", b"", 404), ("GET", "/api/run/cut", None, 405), ("GET", "/etc/passwd", None, 404),
            ("GET", "/../../etc/passwd", None, 404), ("DELETE", "/", None, 405),
            ("POST", "/api/run/cut", bytes(2 << 20), 413)]:
        status, said = server.request(method, path, body)
        assert status == expected, (method, path, said)
        assert "error" in json.loads(said)


def test_the_page_works_in_a_browser(server, folder, tmp_path):
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(server.url)
        browser.wait_for("document.querySelectorAll('nav button').length === 2")
        browser.type("input[type=file]", folder / "photo.png")
        browser.wait_for("document.querySelector('.drop img')")
        browser.click(".go")
        browser.wait_for("document.querySelectorAll('figure img').length === 3")
        assert browser.run("return document.querySelector('.said').textContent") == "Selected class: leaf (2)"
        assert "ms in the model" in browser.run("return document.querySelector('.time').textContent")
        browser.wait_for("[...document.querySelectorAll('figure img')].every(i => i.complete && i.naturalWidth === 400)")
        browser.screenshot(tmp_path / "segment.png")
        # The other model, its photo dropped onto the page.
        browser.click("nav button:nth-child(2)")
        browser.run("""
            const bytes = Uint8Array.from(atob(arguments[0]), c => c.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], "blue.png", {type: "image/png"}));
            document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true}));
        """, base64.b64encode(png(Image.new("RGB", (40, 30), (0, 0, 255)))).decode())
        browser.click(".go")
        browser.wait_for("document.querySelectorAll('.bar').length === 3")
        assert browser.run("return document.querySelector('.bar span').textContent") == "blue"
        # What the server refuses is said on the page.
        browser.clear("input[type=number]")
        browser.type("input[type=number]", "0")
        browser.click(".go")
        browser.wait_for("document.querySelector('.error')")
        assert "from 1 to 1000" in browser.run("return document.querySelector('.error').textContent")
        kept = os.environ.get("DOWNHAUL_SCREENSHOTS")
        if kept:
            pathlib.Path(kept).mkdir(parents=True, exist_ok=True)
            (tmp_path / "segment.png").rename(pathlib.Path(kept) / "segment.png")
            browser.screenshot(pathlib.Path(kept) / "classify.png")
    finally:
        browser.close()


def trickle(port):
    """Sends a byte at a time for as long as the server lets it; returns how long that was."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as s:
        try:
            for byte in b"POST /api/run/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + bytes(1000):
                s.send(bytes([byte]))
                time.sleep(0.1)
                if time.monotonic() - begin > 20:
                    break
        except OSError:
            pass
    return time.monotonic() - begin


def test_load_with_hostile_clients_among_the_others(server, folder):
    """Right answers for those who ask rightly, no crash, no growth."""
    photo = (folder / "photo.png").read_bytes()
    blue = png(Image.new("RGB", (9, 9), (0, 0, 255)))
    garbage = [b"\x00" * 50, b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"A" * 70000,
               b"POST /api/run/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nhalf"]

    def one(number):
        kind = random.Random(number).choice(["cut", "cut", "name", "name", "name", "list", "garbage", "large", "broken"])
        try:
            if kind == "cut":
                status, body = server.request("POST", "/api/run/cut", photo)
                return status == 503 or json.loads(body)["text"] == "Selected class: leaf (2)"
            if kind == "name":
                status, body = server.request("POST", "/api/run/name", blue)
                return status == 503 or json.loads(body)["items"][0]["label"] == "blue"
            if kind == "list":
                return server.request("GET", "/api/models")[0] == 200
            if kind == "broken":
                status, _ = server.request("POST", "/api/run/cut", photo[:200])
                return status in (400, 503)
            if kind == "large":
                with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                    s.sendall(b"POST /api/run/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
                    return s.recv(100).startswith(b"HTTP/1.1 413")
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                s.sendall(random.Random(number).choice(garbage))
            return True
        except (ConnectionError, http.client.HTTPException) as error:
            return f"{kind}: {error!r}"

    with concurrent.futures.ThreadPoolExecutor(CLIENTS + 2) as pool:
        slow = [pool.submit(trickle, server.port) for _ in range(2)]
        list(pool.map(one, range(300)))  # caches and arenas fill
        before = server.resident_kb()
        results = list(pool.map(one, range(REQUESTS)))
        after = server.resident_kb()
        assert all(s.result() < 10 for s in slow)
    wrong = [r for r in results if r is not True]
    assert not wrong, (len(wrong), wrong[:5])
    assert after - before < 4096, f"resident memory grew from {before} to {after} kB"
    assert server.process.poll() is None
