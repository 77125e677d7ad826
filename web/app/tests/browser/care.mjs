// For everybody: by keyboard, by screen reader, on a phone, with a long history.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function axe(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() =>
    // Frames are of other people.
    window.axe.run({ exclude: [["iframe"]] }, { resultTypes: ["violations"], iframes: false }),
  );
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const found = serious.map((one) => `${where}: ${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, []);
}

function longInit(session, count) {
  const messages = [];
  for (let at = 0; at < count / 10; at += 1) {
    const parts = Array.from({ length: 10 }, (_, part) => ({
      part_id: `prt_${String(at * 10 + part).padStart(26, "0")}`,
      content:
        part % 3 === 0
          ? {
              kind: "tool",
              call_id: "c",
              name: "bash",
              status: "completed",
              args: { command: `echo ${at}` },
              exit_code: 0,
            }
          : { kind: "text", text: `Line **${at}** of many, ${"with words ".repeat(part * 4)}` },
    }));
    const created_at = new Date(0).toISOString();
    messages.push({
      id: `msg_${at}`,
      position: at + 1,
      role: "assistant",
      channel: "web:default",
      created_at,
      done_at: created_at,
      reason: "end_turn",
      parts,
    });
  }
  return JSON.stringify({ type: "init", session, seq: count, messages, questions: [], runtime: {} });
}

export default {
  "no serious finding of axe, in light and dark": async (world) => {
    const id = await world.session("hello");
    for (const colorScheme of ["light", "dark"]) {
      const page = await world.signedIn({ colorScheme, bypassCSP: true });
      await axe(page, `sessions ${colorScheme}`);
      await page.getByRole("button", { name: "New session" }).click();
      await axe(page, `new session ${colorScheme}`);
      await page.goto(`${world.url}/sessions/${id}`);
      await page.locator(".turn-end").waitFor({ timeout: 60_000 });
      await page.locator(".tool-head").first().click();
      await axe(page, `session ${colorScheme}`);
      for (const panel of ["terminal", "changes", "services", "snapshots", "activity", "egress"]) {
        await page.goto(`${world.url}/sessions/${id}/${panel}`);
        await page.locator(".panel > :not(.empty), .panel .empty p").first().waitFor();
        await axe(page, `${panel} ${colorScheme}`);
      }
      await page.goto(`${world.url}/settings/models`);
      await page.getByRole("heading", { name: "Model keys" }).waitFor();
      await axe(page, `settings ${colorScheme}`);
      await page.context().close();
    }
  },

  "everything is reached by keyboard and palette": async (world) => {
    const id = await world.session(undefined, "Palette of pearls");
    const page = await world.signedIn();
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search commands and sessions").fill("palette pearls");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/sessions/${id}`);
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search commands and sessions").fill("activity");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/sessions/${id}/activity`);
    await page.getByRole("tab", { name: "Activity" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForURL(`**/sessions/${id}/egress`);
    await page.goto(`${world.url}/`);
    await page.getByRole("link", { name: /Palette of pearls/ }).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.locator(".session-head").waitFor();
    await page.goto(`${world.url}/`);
    await page.keyboard.press("n");
    await page.getByRole("dialog", { name: "New session" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  },

  "a phone shows it without scrolling sideways": async (world) => {
    const id = await world.session("hello");
    const page = await world.signedIn({ viewport: { width: 390, height: 844 } });
    for (const path of ["/", `/sessions/${id}`, `/sessions/${id}/terminal`, "/settings/tokens"]) {
      await page.goto(`${world.url}${path}`);
      await page.locator("main").waitFor();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} is ${wide} px too wide`);
    }
    await page.goto(`${world.url}/sessions/${id}`);
    await page.getByLabel("Panel", { exact: true }).selectOption("snapshots");
    await page.getByRole("button", { name: "Take a snapshot" }).waitFor();
    await page.getByLabel("Panel", { exact: true }).selectOption("");
    await page.getByLabel("Message to the agent").waitFor();
  },

  "ten thousand parts scroll smoothly": async (world) => {
    const id = await world.session();
    const session = await world.call("GET", `/v1/sessions/${id}`);
    const page = await world.signedIn();
    await page.routeWebSocket(/\/connect/, (socket) => socket.send(longInit(session, 10_000)));
    await page.goto(`${world.url}/sessions/${id}`);
    await page.getByText("Line 999 of many").last().waitFor();
    const slowest = await page.evaluate(async () => {
      const rows = document.querySelector(".rows");
      let last = performance.now();
      const gaps = [];
      for (let step = 0; step < 120; step += 1) {
        rows.scrollTop -= 400;
        await new Promise(requestAnimationFrame);
        gaps.push(performance.now() - last);
        last = performance.now();
      }
      return { median: gaps.sort((a, b) => a - b)[60], drawn: document.querySelectorAll(".measured").length };
    });
    assert.ok(slowest.drawn < 250, `${slowest.drawn} rows exist`);
    assert.ok(slowest.median < 50, `a frame takes ${slowest.median} ms`);
    await page.evaluate(() => {
      document.querySelector(".rows").scrollTop = 0;
    });
    await page.getByText("Line 0 of many").first().waitFor();
  },
};
