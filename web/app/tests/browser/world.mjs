// A real server, a real browser. By environment:
//   NACRE_BIN    the program to start; its sessions are deleted in the end, and it is stopped
//   NACRE_HOME   where it keeps its state; a new one with a slim base, if it is not said
//   NACRE_APP    `vite`: the page comes from Vite, for a program that was built without it
//   CHROMIUM     the browser, if it is not /usr/bin/chromium

import { spawn, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Forge } from "./forge.mjs";

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

export class World {
  #server = null;
  #vite = null;
  #pages = [];

  static async begin() {
    const world = new World();
    world.bin = process.env.NACRE_BIN;
    if (!world.bin) throw new Error("NACRE_BIN names the nacre program to test");
    world.home = process.env.NACRE_HOME ?? mkdtempSync(join(tmpdir(), "nacre-web-"));
    world.port = await freePort();
    world.appPort = process.env.NACRE_APP === "vite" ? await freePort() : world.port;
    world.url = `http://nacre.localhost:${world.appPort}`;
    world.api = `http://127.0.0.1:${world.port}`;
    world.forge = await Forge.begin();
    world.env = {
      ...process.env,
      NACRE_HOME: world.home,
      NACRE_SERVER__URL: `http://nacre.localhost:${world.port}`,
      NACRE_GIT__HOSTS: JSON.stringify([world.forge.url]),
      NACRE_SERVER__HOSTS: JSON.stringify([`nacre.localhost:${world.appPort}`]),
    };
    if (!world.run("base", "ls").includes("base")) world.run("base", "build", "--slim");
    await world.start();
    if (world.appPort !== world.port) await world.#startVite();
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    world.browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    return world;
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

  async signedIn(options = {}) {
    const page = await this.visitor(options);
    const { url } = await this.call("POST", "/v1/login/codes");
    await page.goto(`${this.url}/login#${url.split("#")[1]}`);
    await page.getByRole("heading", { name: "Sessions" }).waitFor();
    return page;
  }

  /** By the API, for tests that begin later in a session's life. */
  async session(prompt, title = "A test", more = {}) {
    const body = { title, start: true, channel: "web", ...(prompt ? { initial_prompt: prompt } : {}), ...more };
    const { id } = await this.call("POST", "/v1/sessions", body);
    await until("the session runs", async () => (await this.call("GET", `/v1/sessions/${id}`)).status === "running");
    return id;
  }

  complaints() {
    return this.#pages.flatMap((page) => page.complaints);
  }

  async end() {
    await this.browser?.close();
    if (this.#server && this.#server.exitCode === null) {
      for (const archived of ["false", "true"]) {
        const { items } = await this.call("GET", `/v1/sessions?limit=200&archived=${archived}`);
        for (const { id } of items) await this.call("DELETE", `/v1/sessions/${id}`).catch(() => {});
      }
      const gone = new Promise((resolve) => this.#server.once("exit", resolve));
      this.#server.kill("SIGTERM");
      await gone;
    }
    this.#vite?.kill("SIGTERM");
    this.forge.end();
  }
}
