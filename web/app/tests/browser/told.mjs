// What the demo model never does, told by a socket of the test's own: questions, permissions, values,
// other models, refusals of the way out.

import assert from "node:assert/strict";
import { scripted } from "./scripted.mjs";
import { until } from "./world.mjs";

export default {
  "questions and permissions are answered where they are asked": async (world) => {
    const question = {
      type: "question",
      question_id: "q1",
      channel: "web:default",
      items: [
        { text: "Which colour?", options: [{ label: "Pearl" }, { label: "Coral", description: "warm" }] },
        { text: "Which parts?", options: [{ label: "Head" }, { label: "Foot" }], choose: "several", free_text: true },
      ],
    };
    const permission = { type: "permission", id: "x1", channel: "web:default", tool: "bash", targets: ["rm -r build"] };
    const { page, heard, say } = await scripted(world, [question, permission]);
    await page.getByLabel("Coral").check();
    await page.getByLabel("Head").check();
    await page.getByLabel("Your own answer").fill("the middle");
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await page.getByText("rm -r build").waitFor();
    await page.getByRole("button", { name: "Allow" }).click();
    await until("all is said", () => heard.filter((one) => ["answer", "permission"].includes(one.type)).length === 3);
    const said = heard.filter((one) => ["answer", "permission"].includes(one.type));
    assert.deepEqual(said, [
      { type: "answer", question_id: "q1", item: 0, answer: "Coral" },
      { type: "answer", question_id: "q1", item: 1, answer: ["Head", "the middle"] },
      { type: "permission", id: "x1", allow: true },
    ]);
    say({ type: "question_closed", question_id: "q1", outcome: { kind: "answered", answers: [["Coral"]] } });
    say({ type: "permission_closed", id: "x1", outcome: { kind: "allowed" } });
    await page.getByText("Which colour?").waitFor({ state: "detached" });
    await page.getByText("rm -r build").waitFor({ state: "detached" });
  },

  "thoughts are folded, another model is told of, an edit is a diff": async (world) => {
    const part = (id, content) => ({ type: "part", message_id: "m", part_id: id, content });
    const { page } = await scripted(world, [
      { type: "message", message_id: "m", channel: "web:default", prompt_id: "p" },
      part("prt_1", { kind: "reasoning", text: "Hmm, **pearls**." }),
      part("prt_2", {
        kind: "tool",
        call_id: "c",
        name: "edit",
        status: "completed",
        args: { filePath: "a.ts", oldString: "let a = 1;\n", newString: "const a = 1;\n" },
      }),
      {
        type: "model_switched",
        prompt_id: "p",
        channel: "web:default",
        from: "a/one",
        to: "b/two",
        reason: "overloaded",
      },
    ]);
    await page.getByText("Thought").click();
    await page.getByText("pearls").waitFor();
    await page.locator(".tool-head", { hasText: "a.ts" }).click();
    await page.locator(".diff-line[data-kind=gone]", { hasText: "let a" }).waitFor();
    await page.locator(".diff-line[data-kind=new]", { hasText: "const a" }).waitFor();
    await page.getByText("Model changed from a/one to b/two: overloaded").waitFor();
  },

  "values that are asked for go to the sandbox and not into the conversation": async (world) => {
    const { page, id } = await scripted(world, [{ type: "env_request", id: "e1", keys: ["API_TOKEN"] }]);
    await page.getByLabel("API_TOKEN").fill("s3cret-pearl");
    await page.getByRole("button", { name: "Give" }).click();
    await page.getByLabel("API_TOKEN").waitFor({ state: "detached" });
    const { items } = await world.call("GET", `/v1/sessions/${id}/messages`);
    assert.ok(!JSON.stringify(items).includes("s3cret"));
    assert.ok(!(await page.content()).includes("s3cret"));
  },

  "values that were asked for are asked for after a reload, until somebody gives them": async (world) => {
    const { page, say } = await scripted(world, [], {
      env_requests: [{ id: "e1", keys: [{ key: "API_TOKEN", description: "of the shop" }] }],
    });
    await page.getByPlaceholder("of the shop").waitFor();
    await page.reload();
    await page.getByLabel("API_TOKEN").waitFor();
    say({ type: "env_answered", id: "e1" });
    await page.getByLabel("API_TOKEN").waitFor({ state: "detached" });
  },

  "what an agent wants done outside is decided in the conversation, also after a reload": async (world) => {
    const id = await world.session(undefined, "Before the pearl");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    const ask = (title) =>
      page
        .getByLabel("Message to the agent")
        .fill(`run nacre actions run --integration session --action rename --params '{"title":"${title}"}'`)
        .then(() => page.keyboard.press("Enter"));
    await ask("After the pearl");
    const card = page.getByLabel("The agent asks to have something done");
    await card.getByText("After the pearl").waitFor({ timeout: 60_000 });
    await page.reload();
    await card.getByText("changes something").waitFor();
    await card.getByRole("button", { name: "Approve" }).click();
    await card.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "After the pearl", exact: true }).waitFor();
    await page.getByText("Approved and done: session rename").waitFor();
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    await ask("Never");
    await card.getByLabel("Why not, for the agent").fill("it has a name");
    await card.getByRole("button", { name: "Deny" }).click();
    await page.getByText("Denied: session rename (it has a name)").waitFor();
  },

  "what the way out refused is shown where it happened, with a way to allow it": async (world) => {
    const id = await world.session("run curl -sS -m 5 https://pearls.example/ || true");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/egress`);
    const row = page.locator(".blocked-row", { hasText: "pearls.example" });
    await row.waitFor({ timeout: 60_000 });
    await page.locator(".tabs .count", { hasText: /^1/ }).waitFor();
    await page.reload();
    await row.getByRole("button", { name: "Always" }).click();
    await row.getByText("allowed").waitFor();
    await page.locator(".panel .list-item", { hasText: "pearls.example" }).getByText("allowed").waitFor();
    const { allow } = await world.call("GET", `/v1/sessions/${id}/egress`);
    assert.deepEqual(allow, ["pearls.example"]);
  },

  "what may never be reached has no button": async (world) => {
    const blocked = { type: "egress_blocked", at: new Date().toISOString(), reason: "metadata", can_allow: false };
    const { page } = await scripted(world, [{ ...blocked, host: "169.254.169.254", port: 80 }]);
    const row = page.locator(".blocked-row", { hasText: "169.254.169.254" });
    await row.getByText("never allowed").waitFor();
    assert.equal(await row.getByRole("button").count(), 0);
  },

  "status tells the truth: phases, moving, error": async (world) => {
    const { page, say } = await scripted(world, []);
    say({ type: "status", status: "creating", phase: { name: "sandbox", state: "done", took_ms: 10 } });
    say({ type: "status", status: "creating", phase: { name: "agent", state: "started" } });
    await page.locator(".phases li[data-state=started]", { hasText: "Agent" }).waitFor();
    say({ type: "status", status: "migrating" });
    await page.getByText("Moving to a new sandbox").waitFor();
    say({ type: "status", status: "error", message: "cloning failed: no such repository" });
    await page.getByText("cloning failed: no such repository").waitFor();
    await page.getByRole("button", { name: "Try again" }).waitFor();
  },
};
