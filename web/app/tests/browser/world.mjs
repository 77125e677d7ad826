// A real server, a real browser. By environment:
//   NACRE_BIN    the program to start; its sessions are deleted in the end, and it is stopped
//   NACRE_HOME   where it keeps its state; one that is thrown away in the end, if it is not said
//   NACRE_BASE_HOME  a home that has a base, which is taken from there; without one a slim base is built
//   NACRE_APP    `vite`: the page comes from Vite, for a program that was built without it
//   CHROMIUM     the browser, if it is not /usr/bin/chromium

import { spawn, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Forge } from "./forge.mjs";
import { Wire } from "./wire.mjs";

const APP = new URL("../..", import.meta.url).pathname;

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Until it is true; what it waits for is said when it is not. */
export async function until(what, check, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Into a session's workspace. */
export async function write(world, id, path, body) {
  const answer = await fetch(`${world.api}/v1/sessions/${id}/files?path=${encodeURIComponent(path)}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${world.token}`, "content-type": "application/octet-stream" },
    body,
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
}

export class World {
  #server = null;
  #vite = null;
  #pages = [];
  #contexts = new Set();
  #shared = null;

  /** With these settings besides its own. */
  static async begin(more = {}) {
    const world = new World();
    world.bin = process.env.NACRE_BIN;
    if (!world.bin) throw new Error("NACRE_BIN names the nacre program to test");
    world.isOwnHome = !process.env.NACRE_HOME;
    world.home = process.env.NACRE_HOME || mkdtempSync(join(tmpdir(), "nacre-web-"));
    world.port = await freePort();
    world.appPort = process.env.NACRE_APP === "vite" ? await freePort() : world.port;
    world.url = `http://nacre.localhost:${world.appPort}`;
    world.api = `http://127.0.0.1:${world.port}`;
    world.forge = await Forge.begin();
    world.wire = await Wire.begin(world.appPort);
    world.env = {
      ...process.env,
      NACRE_HOME: world.home,
      NACRE_SERVER__URL: `http://nacre.localhost:${world.port}`,
      NACRE_GIT__HOSTS: JSON.stringify([world.forge.url]),
      NACRE_SERVER__HOSTS: JSON.stringify([world.appPort, world.wire.port].map((port) => `nacre.localhost:${port}`)),
      ...more,
    };
    world.#needBase();
    await world.start();
    if (world.appPort !== world.port) await world.#startVite();
    else await world.#needPage();
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    world.browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    return world;
  }

  /** From another home in half a minute; built anew it takes several. */
  #needBase() {
    if (/\bbase\s/.test(this.run("base", "ls").split("\n").slice(1).join("\n"))) return;
    const elsewhere = process.env.NACRE_BASE_HOME;
    if (!elsewhere) return void this.run("base", "build", "--slim");
    const folder = mkdtempSync(join(tmpdir(), "nacre-base-"));
    try {
      const file = join(folder, "base");
      const done = spawnSync(this.bin, ["snapshot", "export", "base", file, "--level", "1"], {
        env: { ...process.env, NACRE_HOME: elsewhere },
        encoding: "utf8",
      });
      if (done.status !== 0) throw new Error(`no base in ${elsewhere}: ${done.stderr}`);
      this.run("snapshot", "import", file, "--name", "base");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  run(...args) {
    const done = spawnSync(this.bin, args, { env: this.env, encoding: "utf8" });
    if (done.status !== 0) throw new Error(`nacre ${args.join(" ")}: ${done.stderr}`);
    return done.stdout;
  }

  async start() {
    const log = openSync(join(this.home, "up.log"), "a");
    const args = ["up", "--listen", `127.0.0.1:${this.port}`];
    this.#server = spawn(this.bin, args, { env: this.env, stdio: ["ignore", log, log] });
    closeSync(log);
    await until("the server answers", () =>
      fetch(`${this.api}/healthz`).then(
        (answer) => answer.ok,
        () => false,
      ),
    );
    this.token = readFileSync(join(this.home, "token"), "utf8").trim();
  }

  /** Every test would wait in vain for it. */
  async #needPage() {
    const page = await fetch(`${this.api}/`, { headers: { accept: "text/html" } });
    if ((await page.text()).includes('id="root"')) return;
    await this.end();
    throw new Error("the page is not in this program: build it after `npm run build`, or say NACRE_APP=vite");
  }

  async #startVite() {
    const env = { ...process.env, NACRE_URL: this.api, PORT: String(this.appPort) };
    const vite = join(APP, "node_modules/vite/bin/vite.js");
    this.#vite = spawn(process.execPath, [vite, "preview"], { cwd: APP, env, stdio: "ignore" });
    await until("the page is served", () =>
      fetch(`http://127.0.0.1:${this.appPort}/`).then(
        (answer) => answer.ok,
        () => false,
      ),
    );
  }

  get #isUp() {
    return this.#server !== null && this.#server.exitCode === null && this.#server.signalCode === null;
  }

  /** As a crash would. */
  async kill() {
    const gone = new Promise((resolve) => this.#server.once("exit", resolve));
    this.#server.kill("SIGKILL");
    await gone;
  }

  async call(method, path, body) {
    const answer = await fetch(this.api + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  /** A browser of its own; its complaints are kept. */
  async visitor(options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
    this.#contexts.add(context);
    const page = await context.newPage();
    page.complaints = [];
    page.on("pageerror", (error) => page.complaints.push(error.message));
    page.on("console", (said) => {
      if (said.type() === "error" && /Content Security Policy|Refused to/.test(said.text())) {
        page.complaints.push(said.text());
      }
    });
    page.on("request", (request) => {
      const { hostname, protocol } = new URL(request.url());
      const isOurs = hostname === "nacre.localhost" || hostname.endsWith(".preview.nacre.localhost");
      if (!isOurs && !["data:", "blob:"].includes(protocol)) page.complaints.push(`asked ${request.url()}`);
    });
    this.#pages.push(page);
    return page;
  }

  /** As the owner, unless a link of somebody else is given; by the wire, if `at` is its address. */
  async signedIn({ link, at = this.url, ...options } = {}) {
    const page = await this.visitor(options);
    const url = link ?? (await this.call("POST", "/v1/login/codes")).url;
    await page.goto(`${at}/login#${url.split("#")[1]}`);
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    return page;
  }

  /** Somebody else of the organisation: who they are, and a link that signs them in. */
  async member(email, role) {
    const { org_id } = await this.call("GET", "/v1/me");
    const made = await this.call("PUT", `/v1/orgs/${org_id}/members`, { email, role });
    const leave = () => this.call("DELETE", `/v1/orgs/${org_id}/members/${made.user.id}`);
    return { link: made.login.url, leave };
  }

  /** One for all tests that only look at what they say themselves. */
  async shared() {
    this.#shared ??= this.session(undefined, "Looked at");
    return this.#shared;
  }

  /** After each test: sandboxes that nobody needs slow the next one down. */
  async tidy() {
    for (const context of this.#contexts) await context.close().catch(() => {});
    this.#contexts.clear();
    // A test that failed between a kill and a start leaves none behind.
    if (!this.#isUp) await this.start();
    const kept = await this.#shared;
    for (const archived of ["false", "true"]) {
      const { items } = await this.call("GET", `/v1/sessions?limit=200&archived=${archived}`);
      const others = items.filter(({ id }) => id !== kept);
      const [forks, rest] = [true, false].map((isFork) => others.filter((one) => Boolean(one.parent_id) === isFork));
      // What a fork goes on from is not removed before it.
      for (const some of [forks, rest]) {
        await Promise.all(some.map(({ id }) => this.call("DELETE", `/v1/sessions/${id}`).catch(() => {})));
      }
    }
  }

  /** By the API, for tests that begin later in a session's life. */
  async session(prompt, title = "A test", more = {}) {
    const body = { title, start: true, channel: "web", ...(prompt ? { initial_prompt: prompt } : {}), ...more };
    const { id } = await this.call("POST", "/v1/sessions", body);
    await until(
      "the session runs",
      async () => (await this.call("GET", `/v1/sessions/${id}`)).status === "running",
      90_000,
    );
    return id;
  }

  complaints() {
    return this.#pages.flatMap((page) => page.complaints);
  }

  async end() {
    if (this.#isUp) {
      this.#shared = null;
      await this.tidy();
      const gone = new Promise((resolve) => this.#server.once("exit", resolve));
      this.#server.kill("SIGTERM");
      await gone;
    }
    await this.browser?.close();
    this.#vite?.kill("SIGTERM");
    this.wire.end();
    this.forge.end();
    if (this.isOwnHome) rmSync(this.home, { recursive: true, force: true, maxRetries: 3 });
  }
}
