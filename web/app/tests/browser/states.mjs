// Each status says what is true of it, and offers what the server does.

import assert from "node:assert/strict";
import { scripted } from "./scripted.mjs";

const offers = async (page, name) => (await page.getByRole("button", { name, exact: true }).count()) > 0;

export default {
  "a stop is final, says so first, and offers a fork afterwards": async (world) => {
    const id = await world.session("write kept.txt with pearls", "To be ended");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    const ask = async () => {
      await page.getByLabel("More", { exact: true }).click();
      await page.getByRole("button", { name: "Stop for good…" }).click();
      return page.getByRole("dialog", { name: /for good/ });
    };
    await (await ask()).getByRole("button", { name: "Cancel" }).click();
    assert.equal((await world.call("GET", `/v1/sessions/${id}`)).status, "running");
    await (await ask()).getByRole("button", { name: "Stop for good" }).click();
    await page.locator(".session-head .badge", { hasText: "Stopped" }).waitFor({ timeout: 60_000 });
    await page.getByText(/^Stopped for good/).waitFor();
    await page.getByText(/hears nobody/).waitFor();
    assert.equal(await offers(page, "Resume"), false);
    await page.goto(`${world.url}/sessions/${id}/files`);
    await page
      .getByText(/ended for good/)
      .first()
      .waitFor();
    await page.locator(".session-head").getByRole("button", { name: "Fork" }).click();
    await page.locator(".session-head .badge", { hasText: "Running" }).waitFor({ timeout: 90_000 });
    assert.ok(!page.url().includes(id));
  },

  "a pause is shown with its receipt, after a reload, too": async (world) => {
    const id = await world.session();
    await world.call("POST", `/v1/sessions/${id}/pause`);
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/terminal`);
    const banner = page.locator(".notice", { hasText: /^Paused/ });
    await banner.getByText(/Kept: |Newest snapshot/).waitFor();
    await page.locator(".panel").getByText("A terminal needs the sandbox, and it is asleep.").waitFor();
    assert.equal(await offers(page, "Pause"), false);
    assert.equal(await offers(page, "Resume"), true);
  },

  "memory is promised only where it is kept": async (world) => {
    const asleep = { status: "paused", client_status: "paused", pause_reason: "inactivity" };
    for (const [kept, words] of [
      [undefined, "Its files are kept."],
      ["memory", "with their memory"],
      ["disk", "programs start anew"],
    ]) {
      const { page } = await scripted(world, [], { record: { ...asleep, kept } });
      await page.locator(".notice", { hasText: words }).waitFor();
      await page.context().close();
    }
  },

  "a session on hold says who holds it, and offers nothing that is refused": async (world) => {
    for (const [pause_reason, words] of [
      ["credit_limit", "the credit is used up"],
      ["administrator", "an administrator holds it"],
    ]) {
      const record = { status: "suspended", client_status: "suspended", pause_reason };
      const { page } = await scripted(world, [], { record });
      await page.locator(".notice", { hasText: words }).waitFor();
      assert.equal(await offers(page, "Resume"), false);
      assert.equal(await offers(page, "Pause"), false);
      await page.context().close();
    }
  },

  "what the server refuses by then is said in its words": async (world) => {
    const id = await world.session();
    const session = await world.call("GET", `/v1/sessions/${id}`);
    await world.call("POST", `/v1/sessions/${id}/stop`);
    const page = await world.signedIn();
    const record = { ...session, status: "paused", client_status: "paused" };
    await page.route(`**/v1/sessions/${id}`, (route) => route.fulfill({ json: record }));
    await page.routeWebSocket(/\/connect/, (socket) => {
      const init = { type: "init", session: record, seq: 0, messages: [], questions: [], runtime: {} };
      socket.send(JSON.stringify(init));
    });
    await page.goto(`${world.url}/sessions/${id}`);
    const answered = page.waitForResponse((answer) => answer.url().endsWith("/resume"));
    await page.locator(".session-head").getByRole("button", { name: "Resume" }).click();
    const answer = await answered;
    assert.equal(answer.status(), 409);
    const { detail } = await answer.json();
    await page.locator(".toast[data-tone=bad]", { hasText: detail }).waitFor();
  },

  "who comes in the middle of a start sees what is done already": async (world) => {
    const phases = [
      { name: "sandbox", state: "done", took_ms: 12, started_at: new Date().toISOString() },
      { name: "git", state: "started", started_at: new Date().toISOString() },
    ];
    const record = { status: "starting", client_status: "creating", phases };
    const { page, say } = await scripted(world, [], { record });
    await page.locator(".phases li[data-state=done]", { hasText: "Sandbox" }).waitFor();
    say({ type: "status", status: "creating", phase: { name: "git", state: "done", took_ms: 30 } });
    await page.locator(".phases li[data-state=done]", { hasText: "Repositories" }).waitFor();
    assert.equal(await page.locator(".phases li").count(), 2);
  },

  "an error says what to do": async (world) => {
    const failed = (error) => ({ record: { status: "paused", client_status: "error", error } });
    const lacking = await scripted(world, [], failed('there is no program "opencode" in the sandbox'));
    await lacking.page.getByText("nacre base build --slim").waitFor();
    assert.equal(await offers(lacking.page, "Try again"), false);
    const other = await scripted(world, [], failed("the provider did not answer"));
    await other.page.getByText(`nacre session why ${other.id}`).waitFor();
    assert.equal(await offers(other.page, "Try again"), true);
  },
};
