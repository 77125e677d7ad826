// What is beside a conversation: terminal, files, changes, services, preview.

import assert from "node:assert/strict";
import { until, write } from "./world.mjs";

/** Serves a page and tells it when its file has changed. */
const HOT = `import http.server, os, time
PAGE = "page.html"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        if self.path == "/changes":
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            seen = os.stat(PAGE).st_mtime_ns
            while True:
                time.sleep(0.2)
                if os.stat(PAGE).st_mtime_ns != seen:
                    self.wfile.write(b"data: changed\\n\\n")
                    self.wfile.flush()
                    return
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(open(PAGE, "rb").read())
        self.wfile.write(b"<script>new EventSource('/changes').onmessage=()=>location.reload()</script>")
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
`;

/** Three pixels by two. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGMIdTsBQQxwFgBQlghTtAKaOQAAAABJRU5ErkJggg==";

const exec = (world, id, ...argv) => world.call("POST", `/v1/sessions/${id}/exec`, { argv });

export default {
  "a terminal takes what is typed, and is found again after a reload": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/terminal`);
    const screen = page.locator(".screen[data-state=open]");
    await screen.waitFor();
    await page.keyboard.type("echo $((6*7)) > typed; cat typed\n");
    await screen.getByText("42", { exact: true }).waitFor();
    await page.getByRole("button", { name: "New terminal" }).click();
    await page.locator(".screen[data-state=open]").waitFor();
    await page.keyboard.type("echo $((7*11))\n");
    await page.locator(".screen").getByText("77", { exact: true }).waitFor();
    await page.reload();
    await page.locator(".screen").getByText("42", { exact: true }).waitFor();
    const { stdout } = await exec(world, id, "cat", "typed");
    assert.equal(stdout, "42\n");
  },

  "a preview shows a port by itself, and again when the page changes": async (world) => {
    const id = await world.session();
    await write(world, id, "hot.py", HOT);
    await write(world, id, "page.html", "<h1>one</h1>");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/preview`);
    await page.getByText("Nothing listens yet").waitFor();
    await exec(world, id, "sh", "-c", "nohup python3 hot.py >/dev/null 2>&1 &");
    const frame = page.frameLocator(".framed iframe");
    await frame.getByRole("heading", { name: "one" }).waitFor({ timeout: 60_000 });
    await write(world, id, "page.html", "<h1>two</h1>");
    await frame.getByRole("heading", { name: "two" }).waitFor();
    await page.getByLabel("Path of the preview").fill("/changed?by=hand");
    await page.keyboard.press("Enter");
    await frame.getByRole("heading", { name: "two" }).waitFor();
    const shown = page.frames().find((one) => one.url().includes("/changed?by=hand"));
    assert.ok(shown && !shown.url().includes("nacre_code"), "the frame is where somebody sent it");
    const opened = page.waitForEvent("popup");
    await page.getByRole("button", { name: "New tab" }).click();
    const tab = await opened;
    await tab.getByRole("heading", { name: "two" }).waitFor();
    assert.ok(!tab.url().includes("nacre_code"), "the code is gone from the address");
  },

  "files are found in their folders, and pictures are drawn": async (world) => {
    const id = await world.session();
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>parent.ran = 1</script></svg>';
    await write(world, id, "art/shell.png", Buffer.from(PNG, "base64"));
    await write(world, id, "art/shell.svg", svg);
    await write(world, id, "art/raw.bin", Buffer.from([0, 255, 254, 1]));
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/files`);
    await page.getByRole("button", { name: "art", exact: true }).click();
    await page.getByRole("button", { name: /shell\.png/ }).click();
    const drawn = async (name) =>
      page.getByRole("img", { name }).evaluate((picture) => `${picture.naturalWidth}x${picture.naturalHeight}`);
    await page.getByText("3 × 2").waitFor();
    assert.equal(await drawn("art/shell.png"), "3x2");
    await page.getByRole("button", { name: /shell\.svg/ }).click();
    await page.getByText("40 × 30").waitFor();
    assert.equal(await page.evaluate(() => window.ran), undefined, "nothing in a picture runs");
    await page.getByRole("button", { name: "As text" }).click();
    await page.getByLabel("Contents of art/shell.svg").getByText("<script>").first().waitFor();
    await page.getByRole("button", { name: /raw\.bin/ }).click();
    await page.getByText("4 B that are not shown as text.").waitFor();
  },

  "a file is changed here, seen in the sandbox, and committed": async (world) => {
    const id = await world.session();
    await write(world, id, "notes.md", "# Before\n");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/files`);
    await page.getByRole("button", { name: /notes\.md/ }).click();
    const code = page.getByLabel("Contents of notes.md");
    await code.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("and after");
    await page.keyboard.press("Control+s");
    await page.getByText("notes.md is saved").waitFor();
    const { stdout } = await exec(world, id, "cat", "notes.md");
    assert.equal(stdout, "# Before\nand after");
    await page.getByRole("tab", { name: "Changes" }).click();
    await page.getByRole("button", { name: /notes\.md/ }).click();
    await page.getByLabel("Changes of notes.md").getByText("and after").waitFor();
    await page.getByLabel("Commit message").fill("notes: after");
    await page.getByRole("button", { name: "Commit", exact: true }).click();
    await page.getByText("Nothing changed since the last commit.").waitFor();
    await page.locator(".list-item", { hasText: "notes: after" }).waitFor();
    const log = await exec(world, id, "git", "log", "--format=%s");
    assert.equal(log.stdout, "notes: after\n");
  },

  "a change to a repository is shown as a diff, committed and pushed": async (world) => {
    const url = world.forge.repository("acme/pearl", { "src/greet.py": "def greet():\n    return 'hello'\n" });
    const id = await world.session(undefined, "Pushed", { repos: [{ url }] });
    await write(world, id, "pearl/src/greet.py", "def greet(name):\n    return f'hello {name}'\n");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/changes`);
    await page.getByRole("button", { name: /greet\.py/ }).click();
    const diff = page.getByLabel("Changes of src/greet.py").first();
    await diff.getByText("def greet():").first().waitFor();
    await diff.getByText("def greet(name):").first().waitFor();
    await page.getByLabel("Commit message").fill("greet: by name");
    await page.getByRole("button", { name: "Commit", exact: true }).click();
    await page.getByText("Nothing changed since the last commit.").waitFor();
    await page.getByRole("button", { name: "Push", exact: true }).click();
    await until("it arrived", () => world.forge.log("acme/pearl").startsWith("greet: by name"));
  },

  "a service is stopped and started, and its log is live": async (world) => {
    const id = await world.session("serve");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/services`);
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    const item = page.locator(".list-item", { hasText: "nacre-demo" });
    await item.locator(".list-main").click();
    await page
      .getByLabel("Log of nacre-demo")
      .getByText(/GET \/ HTTP/)
      .waitFor();
    await item.getByRole("button", { name: "Stop" }).click();
    await item.getByText("stopped").waitFor();
    await item.getByRole("button", { name: "Start" }).click();
    await item.getByText("running").waitFor();
    await exec(
      world,
      id,
      "sh",
      "-c",
      "sleep 1; curl -s --noproxy '*' --retry 9 --retry-connrefused http://127.0.0.1:3000/live",
    );
    await page.getByLabel("Log of nacre-demo").getByText("GET /live").waitFor();
  },

  "the editor and the desktop are in the panel, where the base has them, and else it says so": async (world) => {
    const id = await world.session();
    const has = async (program) => (await exec(world, id, "sh", "-c", `command -v ${program}`)).exit_code === 0;
    const page = await world.signedIn();
    const parts = [
      { panel: "editor", program: "code-server", inside: ".monaco-workbench", none: "This base has no editor" },
      { panel: "desktop", program: "Xvfb", inside: "canvas", none: "This base has no desktop" },
    ];
    for (const { panel, program, inside, none } of parts) {
      await page.goto(`${world.url}/sessions/${id}/${panel}`);
      if (await has(program)) {
        const frame = page.frameLocator(".framed iframe");
        await frame.locator(inside).first().waitFor({ timeout: 90_000 });
        const { hostname } = new URL(await page.locator(".framed iframe").getAttribute("src"));
        assert.match(hostname, /\.preview\.nacre\.localhost$/, "on an origin of its own");
      } else {
        await page.getByText(none).waitFor({ timeout: 60_000 });
        assert.equal(await page.locator(".framed iframe").count(), 0);
      }
    }
  },

  "a time line tells of phases and tools": async (world) => {
    const id = await world.session("run true");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/activity`);
    const start = page.getByRole("region", { name: "Start", exact: true });
    await start.locator("li[data-kind=phase]", { hasText: "Agent" }).waitFor({ timeout: 60_000 });
    await until("phases are told", async () => (await start.locator("li[data-kind=phase]").count()) > 3);
    const turn = page.getByRole("region", { name: "run true" });
    await turn.locator("li[data-kind=tool]", { hasText: "bash" }).waitFor({ timeout: 60_000 });
    await turn.locator(".axis").waitFor();
    await until("the answer is over", async () => /\d (ms|s)/.test(await turn.locator("li").first().innerText()));
    const told = await page.locator(".activity").innerText();
    assert.doesNotMatch(told, /end_turn|#\d|accepted|\{/, "no word of a program");
    assert.match(told, /\d\d:\d\d:\d\d/, "when it was");
  },
};
