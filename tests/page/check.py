"""The status page in a real browser: check.py URL, with tokens and tasks as JSON on stdin.

Exits 0 when everything holds; otherwise the assertion that does not."""

import json
import sys
import time
import urllib.request
from chromium import Chromium


def post(given, path, body):
    head = {"authorization": "Bearer " + given["operate"]}
    request = urllib.request.Request(given["url"] + path, json.dumps(body).encode(), head)
    return json.load(urllib.request.urlopen(request, timeout=20))


def quiet(browser):
    """Nothing was refused by the policy, no error was told, nothing of a text was run."""
    said = [line for line in browser.said if "net::ERR_INTERNET_DISCONNECTED" not in line]
    assert not said, said
    assert browser.js("window.hacked === undefined"), "a text was run as a script"
    alive = "document.querySelectorAll('main img, main script, main iframe, main [onerror]').length"
    assert browser.js(alive) == 0, "a text became an element"


def fits(browser, url):
    for width in [320, 360, 768, 1280]:
        browser.size(width, 800)
        browser.open(url)
        wide = browser.js("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{url} is {wide} px too wide at {width} px"


def text_stays_text(browser, given):
    for path in ["/", "/tasks/%d" % given["dead"], "/tasks/%d" % given["running"]]:
        fits(browser, given["url"] + path)
        quiet(browser)
        body = browser.js("document.body.innerText")
        assert "<img src=x onerror=" in body, f"{path} does not show the text"


def lives(browser, given):
    """A new task is shown without loading the page again, and focus stays where it was."""
    browser.open(given["url"] + "/")
    browser.wait_for("document.getElementById('live').textContent.startsWith('live, ')")
    browser.key("Tab", 9)
    assert browser.js("document.activeElement.className") == "skip", "Tab leads to the content first"
    browser.js("window.loaded = 1; window.focused = document.querySelector('#dead a');"
               "focused.focus()")
    before = browser.js("document.activeElement.getAttribute('href')")
    post(given, "/v1/tasks", {"type": "render", "payload": {"page": 1}})
    browser.wait_for("document.querySelector('#waiting').textContent.includes('render')")
    browser.wait_for("!window.focused.isConnected")
    assert browser.js("window.loaded") == 1, "the page was loaded again"
    assert browser.js("document.activeElement.getAttribute('href')") == before, "focus was lost"


def pauses_and_comes_back(browser):
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    live = "document.getElementById('live').textContent"
    browser.ask("Network.emulateNetworkConditions", offline=True, **offline)
    browser.js(look)
    browser.wait_for(live + ".startsWith('connection lost, showing ')")
    browser.ask("Network.emulateNetworkConditions", offline=False, **offline)
    browser.js(look)
    browser.wait_for(live + ".startsWith('live, ')")


def orders(browser, given):
    """Buttons for who may operate; an open one stays open while the page is renewed."""
    task = post(given, "/v1/tasks", {"type": "render"})["id"]
    browser.open(f"{given['url']}/tasks/{task}")
    browser.wait_for("document.getElementById('live').textContent.startsWith('live, ')")
    browser.js("window.details = document.querySelector('#task details'); details.open = true")
    post(given, f"/v1/tasks/{task}/edit", {"priority": 7})
    browser.wait_for("document.querySelector('#facts').textContent.includes('priority7')")
    assert browser.js("document.querySelector('#task details').open"), "what was open was closed"
    post(given, f"/v1/tasks/{task}/pause", {})
    browser.wait_for("!window.details.isConnected")
    assert browser.js("document.querySelector('#task details').open"), "what was open was closed"
    browser.js("document.querySelector('#task .sure').click()")
    browser.wait_for("document.querySelector('#task-h').textContent.includes('CANCELLED')")
    assert browser.js("location.pathname") == f"/tasks/{task}"


def without_script(browser, given):
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(given["url"] + "/")
    root = browser.ask("DOM.getDocument")["root"]["nodeId"]
    html = browser.ask("DOM.getOuterHTML", nodeId=root)["outerHTML"]
    for words in ["as of ", "Made at ", "Failed for good (1)", "Waiting by type", "render"]:
        assert words in html, f"{words} is missing without JavaScript"
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def policy_holds(browser):
    """What a page of ours is not made of is not run, and this test would hear of it."""
    browser.js("document.body.append(Object.assign(document.createElement('script'), "
               "{ textContent: 'window.hacked = 1' }))")
    browser.wait(lambda: browser.said, "a word of the policy")
    assert browser.js("window.hacked === undefined"), "an injected script was run"


def main(given):
    began = time.monotonic()

    def done(what):
        print(f"{time.monotonic() - began:5.1f} s  {what}", flush=True)

    for role in ["read", "operate"]:
        browser = Chromium()
        browser.log_in(given[role])
        if role == "read":
            text_stays_text(browser, given)
            assert browser.js("document.querySelectorAll('form').length") == 0
            done("texts stay texts, and every width will do")
            lives(browser, given)
            quiet(browser)
            done("news come by themselves, focus stays")
            pauses_and_comes_back(browser)
            done("a lost connection is told")
            without_script(browser, given)
            done("it is whole without JavaScript")
        else:
            orders(browser, given)
            done("orders reach the task")
        quiet(browser)
        policy_holds(browser)
        browser.close()


main(json.load(sys.stdin))
