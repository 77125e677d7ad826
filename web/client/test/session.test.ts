import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { WebSocket, WebSocketServer } from "ws";

import { Client, ClientError, type Session, type SessionOptions, type SocketLike, type Update } from "../src/index.js";

/** What one connection comes to: what is told, and then. */
interface Plan {
  refuse?: number;
  /** From the log, after what was asked for. */
  upTo?: number;
  leaveOut?: number;
  resync?: number;
  then?: "break" | "close" | "mute" | "break at a prompt";
}

const SESSION = { id: "ses_1", title: "t", client_status: "running" };

async function serve(context: TestContext, log: number, plans: Plan[]) {
  const since: (string | null)[] = [];
  const heard: { type: string; id?: string }[] = [];
  const tokens: (string | undefined)[] = [];
  const title = (seq: number) => JSON.stringify({ seq, type: "title", title: `t${seq}` });
  const init = (seq: number, resync: boolean) =>
    JSON.stringify({ type: "init", session: { ...SESSION, title: `t${seq}` }, seq, messages: [], runtime: {}, resync });
  let refused = 200;
  const server = createServer((_, response) => {
    const problem = { type: "about:blank", title: "", status: refused, detail: "not there", code: "not_found" };
    response.writeHead(refused).end(JSON.stringify(refused === 200 ? SESSION : problem));
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, stream, head) => {
    const query = new URL(request.url ?? "", "http://x").searchParams;
    since.push(query.get("since"));
    tokens.push(request.headers.authorization);
    const plan = plans.shift() ?? {};
    if (plan.refuse !== undefined) {
      refused = plan.refuse === 503 ? 200 : plan.refuse;
      stream.end(`HTTP/1.1 ${plan.refuse} No\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, stream, head, (socket) => {
      const asked = query.get("since");
      const from = asked === null ? 0 : Number(asked);
      const upTo = plan.upTo ?? log;
      if (asked === null) socket.send(init(0, false));
      for (let seq = from + 1; seq <= upTo; seq += 1) if (seq !== plan.leaveOut) socket.send(title(seq));
      if (plan.resync !== undefined) {
        socket.send(init(plan.resync, true));
        for (let seq = plan.resync + 1; seq <= log; seq += 1) socket.send(title(seq));
      }
      if (plan.then === "break") return void setTimeout(() => socket.terminate(), 5);
      if (plan.then === "close") return socket.close(1012);
      socket.on("message", (data) => {
        const command = JSON.parse(String(data)) as { type: string; id?: string };
        heard.push(command);
        if (plan.then === "mute") return;
        if (command.type === "ping") socket.send('{"type":"pong"}');
        if (command.type !== "prompt") return;
        if (plan.then === "break at a prompt") return socket.terminate();
        socket.send(JSON.stringify({ seq: upTo + 1, type: "prompt", id: command.id, status: "queued" }));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const webSocket = (at: string, headers: Record<string, string>) =>
    new WebSocket(at, { headers }) as unknown as SocketLike;
  const client = new Client({ url, token: "nac_test", webSocket, wait: async () => {} });
  return { client, since, heard, tokens };
}

function follow(context: TestContext, client: Client, options: SessionOptions = {}) {
  const updates: Update[] = [];
  const waiting: { until: (session: Session) => boolean; resolve: () => void }[] = [];
  const session = client.follow("ses_1", {
    pace: { pingAfterMs: 50, deadAfterMs: 150, waitsMs: [0, 5] },
    ...options,
    onUpdate: (update) => {
      updates.push(update);
      for (const one of waiting) if (one.until(session)) one.resolve();
    },
  });
  context.after(() => session.close());
  const numbers = () =>
    updates.flatMap((update) => (update.type === "frame" && update.frame.type !== "init" && update.frame.seq !== undefined ? [update.frame.seq] : []));
  const until = (is: (session: Session) => boolean) =>
    is(session) ? Promise.resolve() : new Promise<void>((resolve) => waiting.push({ until: is, resolve }));
  return { session, updates, numbers, until };
}

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

test("a line that breaks is taken up where it was", async (context) => {
  const plans: Plan[] = [{ upTo: 3, then: "break" }, { refuse: 503 }, { upTo: 7, then: "close" }];
  const { client, since, tokens } = await serve(context, 12, plans);
  const { numbers, until } = follow(context, client, { since: 0 });
  await until((session) => session.transcript.seq === 12);
  assert.deepEqual(numbers(), upTo(12));
  assert.deepEqual(since, ["0", "3", "3", "7"]);
  assert.equal(tokens[0], "Bearer nac_test");
});

test("a gap is asked for again, and one that stays ends in beginning anew", async (context) => {
  const gap: Plan = { leaveOut: 5 };
  const { client, since } = await serve(context, 9, [{ upTo: 4, then: "break" }, gap, gap, gap]);
  const { until, updates } = follow(context, client, { since: 0 });
  await until((session) => session.transcript.seq === 9);
  assert.deepEqual(since, ["0", "4", "4", "4", null]);
  assert.ok(updates.some((update) => update.type === "frame" && update.frame.type === "init"));
});

test("a client that lagged begins anew on the same line", async (context) => {
  const { client, since } = await serve(context, 9, [{ upTo: 2, resync: 6 }]);
  const { until, numbers } = follow(context, client);
  await until((session) => session.transcript.seq === 9);
  assert.deepEqual(numbers(), [1, 2, 7, 8, 9]);
  assert.deepEqual(since, [null]);
});

test("a silent line is asked and then given up", async (context) => {
  const { client, heard } = await serve(context, 4, [{ upTo: 2, then: "mute" }]);
  const { until, numbers } = follow(context, client);
  await until((session) => session.transcript.seq === 4);
  assert.deepEqual(numbers(), upTo(4));
  assert.ok(heard.some(({ type }) => type === "ping"));
});

test("a session that is not there is the end", async (context) => {
  const { client } = await serve(context, 0, [{ refuse: 404 }]);
  const refused = await new Promise<Update>((resolve) => {
    const session = client.follow("ses_1", { onUpdate: (update) => update.type === "refused" && resolve(update) });
    context.after(() => session.close());
  });
  assert.equal(refused.type === "refused" && refused.error.code, "not_found");
});

test("a prompt that may be lost is sent again under its name", async (context) => {
  const lossy: Plan = { upTo: 1, then: "break at a prompt" };
  const { client, heard } = await serve(context, 1, [lossy, lossy]);
  const { session, until } = follow(context, client, { since: 0 });
  await until(() => session.transcript.seq === 1);
  const id = session.prompt({ content: "go" });
  await until(() => session.transcript.prompts.some((prompt) => prompt.id === id));
  assert.deepEqual(heard.filter(({ type }) => type === "prompt").map((command) => command.id), [id, id, id]);
});

test("without a line a prompt waits and a cancel does not", async (context) => {
  const { client } = await serve(context, 1, [{ refuse: 503 }, { refuse: 503 }]);
  const { session, until } = follow(context, client, { since: 0 });
  assert.throws(
    () => session.cancel(),
    (error) => error instanceof ClientError && error.kind === "not_connected",
  );
  const id = session.prompt({ content: "go" });
  await until(() => session.transcript.prompts.some((prompt) => prompt.id === id));
  session.close();
  assert.throws(() => session.pause(), (error) => error instanceof ClientError && error.kind === "ended");
});
