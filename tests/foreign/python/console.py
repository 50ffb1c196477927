"""Uses the web console in headless Chromium, over its DevTools pipe. Each line of standard input is a step, for which
one line is printed. The steps are functions of Steps."""

import json
import os
import subprocess
import sys
import tempfile
import time

import axe_core_python

PATIENCE = 60
AXE = os.path.join(os.path.dirname(axe_core_python.__file__), "axe.min.js")
# What Chromium answers to a call for a page that another one replaces.
NAVIGATED = ["Inspected target navigated or closed", "Execution context was destroyed.",
             "Cannot find default execution context"]


class Navigated(Exception):
    """The page is being replaced by another one."""


class Browser:
    """A page of Chromium. Requests and responses are JSON objects that end in a zero."""

    def __init__(self, profile):
        (self.reader, child_out), (child_in, self.writer) = os.pipe(), os.pipe()

        def descriptors():
            # 3 and 4 may be among the ends, so both are moved out of the way first.
            high_in, high_out = os.dup2(child_in, 100), os.dup2(child_out, 101)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        self.process = subprocess.Popen(
            [
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-extensions", "--disable-background-networking", "--no-proxy-server",
                "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
            ],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_in)
        os.close(child_out)
        self.last, self.rest, self.session, self.events = 0, b"", None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                error = answer.get("error")
                if error and error["message"] in NAVIGATED:
                    raise Navigated
                assert not error, (method, error)
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.reader, 1 << 16)
            assert more, "Chromium has ended"
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def run(self, script):
        """Returns the value of a JavaScript expression, after its promise."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, (script, done["exceptionDetails"])
        return done["result"].get("value")

    def wait(self, condition, what):
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.holds(condition):
            if time.monotonic() > end:
                raise AssertionError(f"not seen: {what}\n{self.run('document.body.innerText')}")
            time.sleep(0.1)

    def holds(self, condition):
        """Returns whether an expression is true. It is not while another page takes the place of this one."""
        try:
            # While the page is loaded, it has no body.
            return self.run(f"document.body !== null && Boolean({condition})")
        except Navigated:
            return False

    def close(self):
        self.process.kill()
        self.process.wait()


# Texts whose contrast with what is behind them is below that of WCAG 2 AA.
LOW_CONTRAST = """(() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map((p) => p / 255).map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (text === "" || !element.checkVisibility() || element.closest("button:disabled, noscript")) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const [one, other] = [light(parse(colour)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return low;
})()"""

NAMED = {"button", "textbox", "searchbox", "combobox", "checkbox", "link", "region", "img", "image", "meter", "dialog",
         "navigation", "table", "spinbutton"}


class Steps:
    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def open(self):
        self.browser.call("Page.navigate", url=self.url)
        self.browser.wait("document.querySelector('form.logon')", "the form to log on")

    def fill(self, name, value):
        where = f"[...document.querySelectorAll('dialog[open] [name={name}], form.logon [name={name}]')].at(-1)"
        self.browser.run(f"{where}.value = {json.dumps(value)}")

    def search(self, text):
        """Types into the search field of the page."""
        field = "document.querySelector('main input[type=search]')"
        self.browser.run(f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new Event('input'))")

    def submit(self, fields, text):
        """Fills in the form of a page elsewhere, and clicks the button with this text."""
        button = f"""[...document.querySelectorAll("form button")].find((it) => it.innerText.trim() === {json.dumps(text)})"""
        self.browser.wait(button, f"a button {text}")
        for name, value in fields.items():
            self.browser.run(f"document.querySelector('form [name={name}]').value = {json.dumps(value)}")
        self.browser.run(f"{button}.click()")

    def click(self, text):
        """Clicks the button or link with this text or label, in the dialog if one is open."""
        wanted = json.dumps(text)
        found = f"""(() => {{
          const place = document.querySelector("dialog[open]") ?? document;
          return [...place.querySelectorAll("button, a")].find((it) =>
            it.textContent === {wanted} || it.getAttribute("aria-label") === {wanted});
        }})()"""
        self.browser.wait(found, f"a button {text}")
        self.browser.run(f"{found}.click()")

    def click_first(self, start):
        """Clicks the first button whose label starts so, in the dialog if one is open."""
        found = f"""[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button")].find((it) =>
          (it.getAttribute("aria-label") ?? "").startsWith({json.dumps(start)}))"""
        self.browser.wait(found, f"a button {start}...")
        self.browser.run(f"{found}.click()")

    def tick(self, name):
        """Ticks a box of the dialog."""
        box = f"document.querySelector('dialog[open] input[type=checkbox][name={name}]')"
        self.browser.wait(box, f"a box {name}")
        self.browser.run(f"{box}.click()")

    def choose(self, value):
        """Chooses an option of the page."""
        self.browser.wait("document.querySelector('main select')", "a choice")
        select = "document.querySelector('main select')"
        self.browser.run(f"{select}.value = {json.dumps(value)}, {select}.dispatchEvent(new Event('change'))")

    def sees(self, text):
        self.browser.wait(f"document.body.innerText.includes({json.dumps(text)})", text)

    def arrives(self, text):
        """Waits for a text on another page. While the browser goes there, no script can run."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.browser.wait(f"document.body.innerText.includes({json.dumps(text)})", text)
            except (AssertionError, KeyError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def lacks(self, text):
        self.browser.wait(f"!document.querySelector('main').innerText.includes({json.dumps(text)})", f"no {text}")

    def closed(self):
        """Waits until no dialog is open."""
        self.browser.wait("!document.querySelector('dialog[open]')", "the end of the dialog")

    def leave(self):
        """Loads the page again: the cookie and the token of the tab bring the session back."""
        self.browser.call("Page.reload")

    def accessible(self):
        """Checks in both schemes that texts have contrast and that controls have names, also with axe-core."""
        if self.browser.run("window.axe === undefined"):
            with open(AXE, encoding="utf-8") as file:
                self.browser.run(file.read() + "; null")
        for scheme in ["light", "dark"]:
            self.scheme(scheme)
            low = self.browser.run(LOW_CONTRAST)
            assert not low, (scheme, low)
            found = self.browser.run("axe.run({resultTypes: ['violations']}).then((done) => done.violations.map("
                                     "(it) => [it.id, it.help, it.nodes.slice(0, 5).map((node) => node.html)]))")
            assert not found, (scheme, found)
        tree = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
        unnamed = [role for role, name in roles if role in NAMED - {"table"} and not name.strip()]
        assert not unnamed, unnamed
        assert any(role in NAMED for role, _ in roles), roles

    def scheme(self, name):
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.browser.call("Emulation.setEmulatedMedia", features=features)

    def width(self, pixels):
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 600}
        self.browser.call("Emulation.setDeviceMetricsOverride", **size)
        over = self.browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"the page is {over} pixels wider than {pixels}"

    def picture(self, directory, name):
        """Writes pictures of the page with both widths and schemes."""
        for pixels in [1280, 390]:
            self.width(pixels)
            for scheme in ["light", "dark"]:
                self.scheme(scheme)
                height = self.browser.run("Math.min(document.documentElement.scrollHeight, 3000)")
                clip = {"x": 0, "y": 0, "width": pixels, "height": height, "scale": 1}
                data = self.browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
                with open(os.path.join(directory, f"{name}-{pixels}-{scheme}.png"), "wb") as file:
                    import base64
                    file.write(base64.b64decode(data))
        self.width(1280)

    def inert(self):
        """Checks that no element came from a name, and that the policy had nothing to refuse."""
        assert self.browser.run("document.querySelectorAll('main img, main script, main b i').length") == 0
        assert self.browser.run("window.stolen === undefined")
        complaints = [
            event["params"]["entry"]["text"] for event in self.browser.events
            if event.get("method") == "Log.entryAdded" and "Content Security Policy" in event["params"]["entry"]["text"]
        ]
        assert not complaints, complaints

    def alone(self):
        """Checks that each request went to the console."""
        urls = [
            event["params"]["request"]["url"] for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        outside = [url for url in urls if not url.startswith((self.url, "about:", "data:"))]
        assert urls and not outside, outside

    def cookie(self):
        cookies = self.browser.call("Network.getCookies")["cookies"]
        assert len(cookies) == 1 and cookies[0]["httpOnly"] and cookies[0]["sameSite"] == "Strict", cookies
        assert self.browser.run("document.cookie") == "" and self.browser.run("localStorage.length") == 0
        assert self.browser.run("sessionStorage.length") == 1


with tempfile.TemporaryDirectory() as profile:
    browser = Browser(profile)
    try:
        steps = Steps(browser, sys.argv[1])
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            getattr(steps, name)(*arguments)
            print("done", flush=True)
    finally:
        browser.close()
