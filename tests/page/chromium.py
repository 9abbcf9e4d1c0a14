"""A headless Chromium, driven through a pipe with the DevTools protocol. Standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def find():
    """The path of a Chromium; none where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class NotAnswered(Exception):
    """The browser refused; what it was asked about may have gone."""


class Chromium:
    """One browser with one tab. What its console says is kept in `said`."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        their_end, self.to = os.pipe()
        self.back, our_end = os.pipe()

        def wire():
            # Both are moved out of the way first: one may be where the other belongs.
            read, write = os.dup(their_end), os.dup(our_end)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [
                find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                "--disable-background-networking", "--remote-debugging-pipe",
                f"--user-data-dir={self.profile.name}", "about:blank",
            ],
            preexec_fn=wire, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(their_end)
        os.close(our_end)
        self.number, self.session, self.buffer = 0, None, b""
        self.answers, self.said, self.seen, self.token = {}, [], [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network", "DOM", "Audits"]:
            self.ask(f"{domain}.enable")

    def close(self):
        for end in (self.to, self.back):
            os.close(end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def log_in(self, token):
        """Answers the browser's own question for a password."""
        self.token = token
        self.ask("Fetch.enable", handleAuthRequests=True)

    def ask(self, method, **params):
        self.number += 1
        number = self.number
        self.send(number, method, params)
        until = time.monotonic() + 30
        while number not in self.answers:
            assert time.monotonic() < until, f"{method} was not answered"
            self.hear(0.2)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise NotAnswered(method, answer)
        return answer.get("result", {})

    def send(self, number, method, params):
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]

    def hear(self, seconds):
        """Takes what comes within this time."""
        if not select.select([self.back], [], [], seconds)[0]:
            return
        self.buffer += os.read(self.back, 1 << 20)
        *messages, self.buffer = self.buffer.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.told(message["method"], message.get("params", {}))

    def told(self, method, params):
        if method == "Fetch.requestPaused":
            self.number += 1
            self.send(self.number, "Fetch.continueRequest", {"requestId": params["requestId"]})
        elif method == "Fetch.authRequired":
            self.number += 1
            given = {"response": "ProvideCredentials", "username": "me", "password": self.token}
            given = {"requestId": params["requestId"], "authChallengeResponse": given}
            self.send(self.number, "Fetch.continueWithAuth", given)
        elif method == "Runtime.consoleAPICalled":
            self.said.append(str([one.get("value") for one in params["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif method == "Audits.issueAdded":
            issue = params["issue"]
            if issue["code"] == "ContentSecurityPolicyIssue":
                self.said.append(json.dumps(issue)[:500])
        elif method == "Page.javascriptDialogOpening":
            self.said.append("a dialog: " + params["message"])
            self.number += 1
            self.send(self.number, "Page.handleJavaScriptDialog", {"accept": True})
        self.seen.append(method)

    def open(self, url):
        self.seen.clear()
        error = self.ask("Page.navigate", url=url).get("errorText")
        assert not error, (url, error)
        self.wait(lambda: "Page.loadEventFired" in self.seen, f"{url} to load")

    def js(self, expression):
        """The value of an expression in the page."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, found, what, seconds=20):
        until = time.monotonic() + seconds
        while not found():
            assert time.monotonic() < until, f"{what} did not come"
            self.hear(0.05)

    def wait_for(self, expression, seconds=20):
        """Waits until it is so, also over a change of pages, in which nothing is there."""
        careful = f"(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()"

        def found():
            try:
                return self.js(careful)
            except NotAnswered:
                return False

        self.wait(found, expression, seconds)

    def size(self, width, height, scale=1, dark=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=scale, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def key(self, name, code):
        for kind in ["rawKeyDown", "keyUp"]:
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                     windowsVirtualKeyCode=code)

    def picture(self, path, whole=False):
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
