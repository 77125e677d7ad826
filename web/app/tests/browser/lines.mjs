// What goes wrong: the server, the network, the token, the request; and more than one person.

import assert from "node:assert/strict";
import { until } from "./world.mjs";

const said = async (page) => (await page.locator(".answer").allInnerTexts()).join("\n");

export default {
  "a server that is killed in mid-answer comes back without a doubled line": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    await page.getByLabel("Message to the agent").fill("slow 30");
    await page.keyboard.press("Enter");
    await page.getByText("word 3,").waitFor({ timeout: 60_000 });
    await world.kill();
    await page.getByText("Reconnecting").waitFor();
    await page.getByLabel("Message to the agent").fill("run echo said in the dark");
    await page.keyboard.press("Enter");
    await page.getByText("waits for the connection").waitFor();
    const before = await said(page);
    assert.match(before, /word 3,/, "what was there stays on the screen");
    await world.start();
    await page.getByText("Reconnecting").waitFor({ state: "hidden", timeout: 60_000 });
    await page.locator(".turn-end, .turn-error").first().waitFor({ timeout: 120_000 });
    const after = await said(page);
    assert.equal(after.match(/word 3,/g)?.length, 1, after);
    await page.locator(".tool", { hasText: "said in the dark" }).waitFor({ timeout: 120_000 });
    assert.equal(await page.locator(".said", { hasText: "said in the dark" }).count(), 1);
    await until("the agent rests", async () => (await page.locator(".doing span").count()) === 0);
    const whole = await said(page);
    await page.reload();
    await page.locator(".turn-end, .turn-error").first().waitFor();
    await until("all is there again", async () => (await said(page)) === whole);
  },

  "a line that is cut is told of, and heals without a flicker": async (world) => {
    const id = await world.session("run echo one");
    const page = await world.signedIn({ at: world.wire.url });
    await page.goto(`${world.wire.url}/sessions/${id}`);
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    const rows = await page.locator(".measured").count();
    await page.evaluate(() => {
      window.fewest = Number.POSITIVE_INFINITY;
      const count = () => {
        window.fewest = Math.min(window.fewest, document.querySelectorAll(".measured").length);
        requestAnimationFrame(count);
      };
      count();
    });
    world.wire.cut();
    try {
      await page.getByText("Reconnecting").waitFor();
      await page.getByLabel("Message to the agent").fill("run echo from the dark");
      await page.keyboard.press("Enter");
      await page.getByText("waits for the connection").waitFor();
      await world.call("POST", `/v1/sessions/${id}/prompts`, { content: "run echo two" });
    } finally {
      world.wire.mend();
    }
    await page.getByText("Reconnecting").waitFor({ state: "hidden", timeout: 60_000 });
    for (const what of ["echo two", "echo from the dark"]) {
      await page.locator(".tool", { hasText: what }).waitFor({ timeout: 60_000 });
      assert.equal(await page.locator(".said", { hasText: what }).count(), 1);
    }
    assert.ok((await page.evaluate(() => window.fewest)) >= rows, "nothing vanished on the way");
  },

  "two browsers on one session see each other, and the same": async (world) => {
    const id = await world.session();
    const one = await world.signedIn();
    const other = await world.signedIn();
    await one.goto(`${world.url}/sessions/${id}`);
    await other.goto(`${world.url}/sessions/${id}`);
    await one.getByText("2 here").waitFor();
    await other.getByText("2 here").waitFor();
    await one.getByLabel("Message to the agent").fill("run echo for both");
    await one.keyboard.press("Enter");
    for (const page of [one, other]) await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    const [left, right] = await Promise.all([one, other].map((page) => page.locator(".rows").textContent()));
    assert.equal(left, right);
    await other.goto(`${world.url}/`);
    await one.getByText("2 here").waitFor({ state: "detached" });
  },

  "a bad code is refused in words, and a used one is bad": async (world) => {
    const page = await world.visitor();
    await page.goto(`${world.url}/sessions/ses_whatever`);
    await page.getByRole("heading", { name: "Sign in to Nacre" }).waitFor();
    await page.getByLabel("Link or code").fill("nonsense");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page
      .getByRole("alert")
      .getByText(/nacre login/)
      .waitFor();
    const { url } = await world.call("POST", "/v1/login/codes");
    await page.getByLabel("Link or code").fill(url);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator(".top-bar").waitFor();
    const next = await world.visitor();
    await next.goto(`${world.url}/login#${url.split("#")[1]}`);
    await next.getByRole("alert").waitFor();
  },

  "a session that is not there, and an action that is refused, say so": async (world) => {
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/ses_01m7p8pap5e6391d4ezfmg2mbw`);
    await page.getByRole("heading", { name: "This session cannot be shown" }).waitFor({ timeout: 30_000 });
    await page.goto(`${world.url}/`);
    await page.getByRole("button", { name: "New session" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Repository").fill("https://nobody@git.example/a/b");
    await dialog.getByRole("button", { name: "Start" }).click();
    await dialog
      .getByRole("alert")
      .getByText(/as in https/)
      .waitFor();
  },

  "who may only look is offered nothing that would be refused, by hand or by keyboard": async (world) => {
    const id = await world.session(undefined, "Only looked at");
    const { link, leave } = await world.member(`viewer-${Date.now()}@example.org`, "viewer");
    const page = await world.signedIn({ link });
    await page.getByRole("link", { name: /Only looked at/ }).waitFor();
    await page.keyboard.press("n");
    assert.equal(await page.getByRole("dialog").count(), 0, "no new session by its key");
    assert.equal(await page.getByRole("button", { name: "New session" }).count(), 0);
    await page.keyboard.press("?");
    const keys = page.getByRole("dialog", { name: "Keys" });
    await keys.getByText("search", { exact: true }).waitFor();
    assert.equal(await keys.getByText(/new session|send|cancel|save/).count(), 0);
    await page.keyboard.press("Escape");
    await page.goto(`${world.url}/sessions/${id}/files`);
    await page.getByText("You may look here").waitFor();
    for (const name of ["Pause", "Upload", "More", "Only looked at"]) {
      assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
    }
    await page.keyboard.press("Control+k");
    await page.getByRole("option", { name: "Only looked at" }).waitFor();
    const offered = await page.getByRole("option").locator(".grow").allTextContents();
    const panels = "Terminal Files Changes Services Preview Desktop Editor Snapshots Activity Egress".split(" ");
    const looking = ["Hide panels", "All sessions", "Settings", "Keys", "Light or dark", "As the system has it"];
    const sessions = (await world.call("GET", "/v1/sessions?limit=200")).items.map(({ title }) => title);
    assert.deepEqual(offered, [...panels, ...looking, ...sessions]);
    await leave();
  },

  "whoever is shown the door while the page is open is asked to sign in": async (world) => {
    const id = await world.shared();
    const { link, leave } = await world.member(`gone-${Date.now()}@example.org`, "member");
    const page = await world.signedIn({ link });
    await page.goto(`${world.url}/sessions/${id}`);
    await page.getByLabel("Message to the agent").waitFor();
    await leave();
    await page.getByRole("heading", { name: "Sign in to Nacre" }).waitFor({ timeout: 60_000 });
  },

  "what was deleted comes back by undo": async (world) => {
    const id = await world.session(undefined, "Nearly gone");
    const page = await world.signedIn();
    await page.getByLabel("Actions for Nearly gone").click();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("link", { name: /Nearly gone/ }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByRole("link", { name: /Nearly gone/ }).waitFor();
    await page.getByLabel("Actions for Nearly gone").click();
    await page.getByRole("button", { name: "Delete…" }).click();
    await until("it is deleted", async () =>
      world.call("GET", `/v1/sessions/${id}`).then(
        () => false,
        () => true,
      ),
    );
  },
};
