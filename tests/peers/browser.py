"""A real browser, headless, driven over the WebDriver protocol."""

import base64
import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to an element


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    def __init__(self, profile):
        driver = shutil.which("chromedriver")
        assert driver, "chromedriver is missing: tools/setup --tests installs it"
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                if self.call("GET", "/status")["ready"]:
                    break
            except OSError:
                time.sleep(0.05)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=900,1100", f"--user-data-dir={profile}"]
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}}}})
        self.session = f"/session/{made['sessionId']}"

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:500]}") from error

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def find(self, css):
        found = self.call("POST", self.session + "/element", {"using": "css selector", "value": css})
        return f"{self.session}/element/{found[ELEMENT]}"

    def click(self, css):
        self.call("POST", self.find(css) + "/click")

    def type(self, css, text):
        """Types; into a file field, chooses the file of that path."""
        self.call("POST", self.find(css) + "/value", {"text": str(text)})

    def clear(self, css):
        self.call("POST", self.find(css) + "/clear")

    def run(self, script, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, condition, seconds=30):
        """Until the JavaScript expression holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(f"return {condition}")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {condition}\n{self.run('return document.body.innerText')}")

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(10)
