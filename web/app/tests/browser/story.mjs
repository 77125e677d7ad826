// The first minutes with it: from signing in to an answer, and what a person does then.

import assert from "node:assert/strict";
import { until } from "./world.mjs";

export default {
  "from the first link to the first answer": async (world) => {
    const page = await world.signedIn();
    assert.ok(!page.url().includes("#"), "the code is gone from the address");
    await page.getByRole("button", { name: "New session" }).click();
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.getByLabel("What shall be done?").fill("hello from the browser");
    await dialog.getByLabel("Title").fill("First");
    await dialog.getByRole("button", { name: "Start" }).click();
    await page.getByText("You said: hello from the browser").first().waitFor({ timeout: 60_000 });
    await page.locator(".turn-end").waitFor();
    assert.equal(await page.locator(".tool").count(), 3);
    await page.locator(".tool-head", { hasText: "write" }).click();
    await page.locator(".diff-line[data-kind=new]", { hasText: "Written by the demo model" }).waitFor();
    await page.goto(`${world.url}/`);
    await page.getByRole("link", { name: /First/ }).waitFor();
  },

  "what streams in is the same as what a reload shows": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    await page.getByLabel("Message to the agent").fill("slow 12");
    await page.keyboard.press("Enter");
    await page.locator(".answer[data-open]").waitFor();
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    const streamed = await page.locator(".answer").allInnerTexts();
    await page.reload();
    await page.locator(".turn-end").waitFor();
    assert.deepEqual(await page.locator(".answer").allInnerTexts(), streamed);
    assert.match(streamed.join(""), /word 12, done\./);
  },

  "what waits can be said otherwise, withdrawn, and the turn cancelled": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    const box = page.getByLabel("Message to the agent");
    const say = async (text) => {
      await box.fill(text);
      await box.press("Enter");
    };
    await say("slow 500");
    await page.locator(".answer[data-open]").waitFor();
    await say("run echo second");
    await say("run echo third");
    await page.locator(".said[data-queued]").nth(1).waitFor();
    // Even after a reload they are still known to wait.
    await page.reload();
    await page.locator(".said[data-queued]").nth(1).waitFor();
    await page.locator(".said[data-queued]").first().getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("What waits, said otherwise").fill("run echo other");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".said[data-queued]").nth(1).getByRole("button", { name: "Withdraw" }).click();
    await page.locator(".said[data-withdrawn]").waitFor();
    await page.getByRole("button", { name: "Cancel turn" }).click();
    await page.getByText("Cancelled").waitFor();
    await page.locator(".tool", { hasText: "echo other" }).waitFor({ timeout: 60_000 });
    await until("the agent rests", async () => (await page.locator(".doing span").count()) === 0);
    assert.equal(await page.locator(".tool").count(), 1);
  },

  "files that are dropped or pasted go along": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    const box = page.getByLabel("Message to the agent");
    await box.evaluate((element) => {
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File(["pasted pearls"], "pasted.txt", { type: "text/plain" }));
      element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["dropped pearls"], "dropped.txt", { type: "text/plain" }));
      element.closest("form").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    });
    const attached = page.getByLabel("Attachments");
    await attached.getByText("14 B").waitFor();
    await attached.getByText("13 B").waitFor();
    await box.fill("hello");
    await box.press("Enter");
    await page.locator(".said .file-chip", { hasText: "pasted.txt" }).waitFor();
    await page.locator(".said .file-chip", { hasText: "dropped.txt" }).waitFor();
    await page.getByText("pasted pearls").first().waitFor({ timeout: 60_000 });
  },

  "a session sleeps, is reloaded, and wakes with what it had": async (world) => {
    const id = await world.session("write kept.txt with pearls");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}`);
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    await page.getByRole("button", { name: "Pause" }).click();
    await page.locator(".session-head .badge", { hasText: "Paused" }).waitFor();
    await page.reload();
    await page
      .getByText(/^Paused/)
      .first()
      .waitFor();
    const { status } = await world.call("GET", `/v1/sessions/${id}`);
    assert.equal(status, "paused", "to look at it does not wake it");
    await page.locator(".session-head").getByRole("button", { name: "Resume" }).click();
    await page.locator(".session-head .badge", { hasText: "Running" }).waitFor({ timeout: 60_000 });
    await page.getByLabel("Message to the agent").fill("run cat kept.txt");
    await page.keyboard.press("Enter");
    await page.locator(".code-block", { hasText: "pearls" }).last().waitFor({ timeout: 60_000 });
  },

  "two forks are compared, and one is kept": async (world) => {
    const id = await world.session("write fork.txt with before", "Forked");
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/snapshots`);
    await page.locator(".turn-end").waitFor({ timeout: 60_000 });
    await page.getByLabel("What the snapshot is for").fill("before the fork");
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page
      .locator(".kin-snapshot", { hasText: /before the fork|Snapshot/ })
      .first()
      .waitFor();
    await page.locator(".kin-snapshot").first().getByRole("button", { name: "Fork" }).click();
    await page.locator(".toast").getByRole("button", { name: "Open" }).click({ timeout: 60_000 });
    await page.getByLabel("Message to the agent").fill("write only-here.txt with more");
    await page.keyboard.press("Enter");
    await page.locator(".tool", { hasText: "only-here.txt" }).first().waitFor({ timeout: 60_000 });
    await until("the agent rests", async () => (await page.locator(".doing span").count()) === 0);
    await page.goto(`${world.url}${new URL(page.url()).pathname.replace(/\/(ses_\w+).*/, "/$1")}/snapshots`);
    await page.getByRole("link", { name: "Compare" }).first().click();
    const sides = page.locator(".compare-side");
    await sides.nth(1).waitFor();
    const fork = sides.filter({ has: page.getByRole("link", { name: "Forked (fork)" }) });
    await fork.getByText("only-here.txt").first().waitFor();
    await fork.getByRole("button", { name: "Keep this one" }).click();
    await page.locator(".session-head").waitFor();
    const { archived_at } = await world.call("GET", `/v1/sessions/${id}`);
    assert.ok(archived_at, "the other one is archived");
  },

  "what forks committed and what git does not know is compared with the commit that they came from": async (world) => {
    const url = world.forge.repository("acme/compared", { "shell.txt": "grey\n", "sand.txt": "fine\n" });
    const id = await world.session(undefined, "Compared", { repos: [{ url }] });
    const run = (session, script) =>
      world.call("POST", `/v1/sessions/${session}/exec`, { argv: ["sh", "-ec", `cd compared; ${script}`] });
    await run(id, "echo before > both.txt");
    const fork = await world.call("POST", `/v1/sessions/${id}/fork`, { title: "Compared too" });
    await world.call("POST", `/v1/sessions/${fork.id}/resume`);
    await run(fork.id, "echo white > shell.txt; git commit -qam 'shell: white'; echo pearl > new.txt");
    const { stdout } = await run(id, "git rev-parse --short=7 HEAD");
    const page = await world.signedIn();
    await page.goto(`${world.url}/compare/${id}/${fork.id}`);
    const [one, other] = ["Compared", "Compared too"].map((name) => page.getByRole("region", { name, exact: true }));
    await other.getByRole("heading", { name: `Changes since the fork at ${stdout.trim()}` }).waitFor();
    await other.locator(".diff-line[data-kind=new]", { hasText: "white" }).waitFor();
    await other.locator(".diff-line[data-kind=new]", { hasText: "pearl" }).waitFor();
    await one.getByText("Nothing has changed that is not so in both.").waitFor();
    await one.getByText("1 file changed alike in both").click();
    await one.getByText("both.txt").waitFor();
  },

  "a list says what each agent does": async (world) => {
    const idle = await world.session("run true", "Is done");
    await world.session("run sleep 60", "Is at it");
    const asleep = await world.session(undefined, "Is asleep");
    await world.call("POST", `/v1/sessions/${asleep}/pause`);
    const page = await world.signedIn();
    const badge = (title) => page.locator(".session-item", { hasText: title }).locator(".badge");
    await badge("Is at it").getByText("Working").waitFor({ timeout: 30_000 });
    await badge("Is done").getByText("Idle").waitFor({ timeout: 60_000 });
    await badge("Is asleep").getByText("Paused").waitFor();
    assert.equal((await world.call("GET", `/v1/sessions/${idle}`)).agent_state, "idle");
  },
};
