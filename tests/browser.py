"""Web pages opened in headless Chromium: many of them in one process, to save time."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
HARNESS = """<!DOCTYPE html><meta charset="utf-8">
<script type="application/json" id="pages">{pages}</script><pre id="result"></pre>
<script>
const wait = ms => new Promise(done => setTimeout(done, ms));
async function open(text) {{
  const frame = document.createElement("iframe");
  Object.assign(frame, {{ width: 1280, height: 800, srcdoc: text }});
  document.body.append(frame);
  for (let at = 0; at < 200; at++) {{
    await wait(20);
    const root = frame.contentDocument && frame.contentDocument.documentElement;
    if (!root || !("ready" in root.dataset)) continue;
    // frames come in real time, and waiting passes in virtual time: it may end first
    frame.contentWindow.requestAnimationFrame = draw => setTimeout(draw, 16);
    return frame.contentWindow;
  }}
  throw new Error("not ready: " + frame.contentDocument.body.innerText);
}}
async function test(pages) {{
{script}
}}
(async () => {{
  let result;
  try {{
    const texts = JSON.parse(document.getElementById("pages").textContent);
    const pages = {{}};
    for (const name in texts) pages[name] = await open(texts[name]);
    result = await test(pages);
  }} catch (error) {{ result = {{ error: error + "\\n" + error.stack }}; }}
  document.getElementById("result").textContent = JSON.stringify(result);
}})();
</script>"""


def chromium(*arguments: str) -> str:
    assert CHROMIUM is not None
    options = "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"
    # a frame in a process of its own would not be waited for
    together = "--disable-features=IsolateSandboxedIframes"
    command = [CHROMIUM, *options, together, "--virtual-time-budget=20000", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_browser(pages: Mapping[str, str], script: str, folder: Path) -> Any:
    """Run a script with ``pages``, the windows of frames by name; return its result."""
    texts = json.dumps(dict(pages)).replace("<", "\\u003c")
    path = folder / "harness.html"
    path.write_text(HARNESS.format(pages=texts, script=script), "utf-8")
    shown = chromium("--dump-dom", path.as_uri())
    found = re.search(r'<pre id="result">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    assert found[1], "the script did not end"
    result = json.loads(html.unescape(found[1]))
    assert not (isinstance(result, dict) and "error" in result), result["error"]
    return result
