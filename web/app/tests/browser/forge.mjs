// A place for repositories, on this machine: git's own server over HTTP.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const WHO = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];

export class Forge {
  static async begin() {
    const forge = new Forge();
    forge.root = mkdtempSync(join(tmpdir(), "nacre-forge-"));
    forge.server = createServer((request, response) => forge.#serve(request, response));
    await new Promise((resolve) => forge.server.listen(0, "127.0.0.1", resolve));
    forge.url = `http://127.0.0.1:${forge.server.address().port}`;
    return forge;
  }

  /** With these files in one commit; its address. */
  repository(name, files) {
    const work = mkdtempSync(join(tmpdir(), "nacre-work-"));
    const git = (...args) => {
      const done = spawnSync("git", [...WHO, ...args], { cwd: work, encoding: "utf8" });
      if (done.status !== 0) throw new Error(`git ${args.join(" ")}: ${done.stderr}`);
    };
    git("init", "-q", "-b", "main");
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(work, path)), { recursive: true });
      writeFileSync(join(work, path), text);
    }
    git("add", "-A");
    git("commit", "-qm", "first");
    const bare = join(this.root, `${name}.git`);
    mkdirSync(dirname(bare), { recursive: true });
    git("clone", "-q", "--bare", work, bare);
    spawnSync("git", ["-C", bare, "config", "http.receivepack", "true"]);
    rmSync(work, { recursive: true, force: true });
    // To a session it is like any other: the git door knows which hosts are without TLS.
    return `${this.url.replace("http:", "https:")}/${name}`;
  }

  log(name) {
    const done = spawnSync("git", ["-C", join(this.root, `${name}.git`), "log", "--format=%s"], { encoding: "utf8" });
    return done.stdout;
  }

  end() {
    this.server.close();
    rmSync(this.root, { recursive: true, force: true });
  }

  #serve(request, response) {
    const { pathname, search } = new URL(request.url, this.url);
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: this.root,
        GIT_HTTP_EXPORT_ALL: "1",
        GIT_PROTOCOL: request.headers["git-protocol"] ?? "",
        REQUEST_METHOD: request.method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        REMOTE_USER: "tester",
        REMOTE_ADDR: "127.0.0.1",
      },
    });
    request.pipe(backend.stdin);
    let head = Buffer.alloc(0);
    let isHead = true;
    backend.stdout.on("data", (bytes) => {
      if (!isHead) return void response.write(bytes);
      head = Buffer.concat([head, bytes]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      isHead = false;
      let status = 200;
      for (const line of head.subarray(0, end).toString().split("\r\n")) {
        const [name, value] = line.split(/:\s*(.*)/);
        if (name.toLowerCase() === "status") status = Number.parseInt(value, 10);
        else response.setHeader(name, value);
      }
      response.writeHead(status);
      response.write(head.subarray(end + 4));
    });
    backend.stdout.on("end", () => response.end());
  }
}
