import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { test, type TestContext } from "node:test";

import { Client, ClientError } from "../src/index.js";

interface Asked {
  line: string;
  key: string | undefined;
  token: string | undefined;
  body: string;
}

async function serve(context: TestContext, answers: [number, unknown, Record<string, string>?][]) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    void read(request).then((body) => {
      const key = request.headers["idempotency-key"] as string | undefined;
      asked.push({ line: `${request.method} ${request.url}`, key, token: request.headers.authorization, body });
      const [status, answer, headers] = answers.shift() ?? [418, ""];
      response.writeHead(status, headers).end(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { asked, client: new Client({ url, token: "nac_test", wait: async () => {} }) };
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

async function failure(promise: Promise<unknown>): Promise<ClientError> {
  return promise.then(
    () => assert.fail("it was done"),
    (error: unknown) => (error instanceof ClientError ? error : assert.fail(String(error))),
  );
}

const problem = { type: "about:blank", title: "No", status: 409, detail: "because", code: "stopped" };

test("what only looks is tried again", async (context) => {
  const { client, asked } = await serve(context, [[503, ""], [500, "oops"], [200, { id: "ses_1" }]]);
  assert.equal((await client.session("ses_1")).id, "ses_1");
  assert.deepEqual(asked.map(({ line }) => line), Array(3).fill("GET /v1/sessions/ses_1"));
});

test("a session is made once however often it is asked for", async (context) => {
  const { client, asked } = await serve(context, [[502, ""], [201, { id: "a" }], [201, { id: "b" }]]);
  await client.createSession({});
  await client.createSession({});
  assert.ok(asked[0]?.key);
  assert.equal(asked[0]?.key, asked[1]?.key);
  assert.notEqual(asked[1]?.key, asked[2]?.key);
});

test("a prompt goes under one name", async (context) => {
  const { client, asked } = await serve(context, [[504, ""], [202, { id: "x", status: "queued" }]]);
  await client.sendPrompt("ses_1", { content: "go" });
  assert.equal(asked[0]?.body, asked[1]?.body);
  assert.match(asked[0]?.body ?? "", /"id":"prm_/);
});

test("a command is not run twice", async (context) => {
  const { client, asked } = await serve(context, [[502, ""]]);
  const error = await failure(client.exec("ses_1", { argv: ["make"] }));
  assert.ok(error.canRetry);
  assert.equal(asked.length, 1);
});

test("a refusal says what the server said", async (context) => {
  const { client } = await serve(context, [[409, problem]]);
  const error = await failure(client.resume("ses_1"));
  assert.deepEqual([error.kind, error.code, error.message, error.canRetry], ["refused", "stopped", "because", false]);
});

test("a token does not follow a redirect", async (context) => {
  const elsewhere = await serve(context, []);
  const { client, asked } = await serve(context, [[307, "", { location: elsewhere.client.http.base.href }]]);
  assert.equal((await failure(client.me())).kind, "protocol");
  assert.equal(asked[0]?.token, "Bearer nac_test");
  assert.equal(elsewhere.asked.length, 0);
});

test("somebody else at the address is told apart", async (context) => {
  const { client } = await serve(context, [[200, "<html></html>"]]);
  assert.equal((await failure(client.models())).kind, "protocol");
});

test("a name cannot lead elsewhere", async (context) => {
  const { client, asked } = await serve(context, [[200, {}]]);
  await client.session("a/../b?c");
  assert.equal(asked[0]?.line, "GET /v1/sessions/a%2F..%2Fb%3Fc");
  await assert.rejects(client.session(".."), TypeError);
});

test("a token is not printed", () => {
  const client = new Client({ url: "http://127.0.0.1:1", token: "nac_very_secret" });
  assert.ok(!`${inspect(client.http)}${JSON.stringify(client)}`.includes("secret"));
});

test("what is asked for is in the address, and what is not is left out", async (context) => {
  const { client, asked } = await serve(context, Array(5).fill([200, {}]));
  await client.sessions({ archived: true, search: "a b", parent: "ses_1" });
  await client.sessions({ archived: false, limit: 5 });
  await client.upload(new Uint8Array([1]), { name: "a.png", media_type: "image/png" });
  await client.gitDiff("ses_1", "pearl", "src/a b.ts");
  await client.allowEgress("ses_1", { host: "example.org", allow: "once" });
  assert.deepEqual(asked.map(({ line }) => line), [
    "GET /v1/sessions?search=a+b&parent=ses_1&archived=true",
    "GET /v1/sessions?limit=5",
    "POST /v1/uploads?name=a.png&media_type=image%2Fpng",
    "GET /v1/sessions/ses_1/git/diff?repo=pearl&path=src%2Fa+b.ts",
    "POST /v1/sessions/ses_1/egress",
  ]);
  assert.deepEqual(JSON.parse(asked[4]?.body ?? ""), { host: "example.org", allow: "once" });
});
