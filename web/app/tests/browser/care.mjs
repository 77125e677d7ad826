// For everybody: by keyboard, by screen reader, on a phone, with a long history.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { until, write } from "./world.mjs";

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

/** Messages of ten parts each, numbered as the log numbers them: one in ten numbers is a message. */
function longHistory(count) {
  const created_at = new Date(0).toISOString();
  return Array.from({ length: count / 10 }, (_, at) => ({
    id: `msg_${at}`,
    position: at * 10 + 1,
    role: "assistant",
    channel: "web:default",
    created_at,
    done_at: created_at,
    reason: "end_turn",
    parts: Array.from({ length: 10 }, (_, part) => ({
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
    })),
  }));
}

/** A page on a session with this past, of which `init` tells the end and pages the rest, as the server does. */
async function longSession(world, count, shown) {
  const id = await world.shared();
  const session = await world.call("GET", `/v1/sessions/${id}`);
  const all = longHistory(count);
  const asked = [];
  const page = await world.signedIn();
  await page.routeWebSocket(/\/connect/, (socket) => {
    const messages = all.slice(-shown);
    socket.send(
      JSON.stringify({ type: "init", session, seq: count + 1, messages, questions: [], prompts: [], runtime: {} }),
    );
  });
  await page.route(/\/messages\?/, (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const items = all.filter((message) => message.position > after).slice(0, 100);
    asked.push(items.length);
    return route.fulfill({ json: { items, next_cursor: items.length ? String(items.at(-1).position) : null } });
  });
  await page.goto(`${world.url}/sessions/${id}`);
  await page
    .getByText(`Line ${count / 10 - 1} of many`)
    .last()
    .waitFor();
  return { page, asked };
}

export default {
  "no serious finding of axe in any view, in light and dark": async (world) => {
    const id = await world.session("serve");
    const fork = await world.call("POST", `/v1/sessions/${id}/fork`, { title: "Another" });
    await write(world, id, "notes.md", "# Notes\n");
    for (const colorScheme of ["light", "dark"]) {
      const visitor = await world.visitor({ colorScheme, bypassCSP: true });
      await visitor.goto(`${world.url}/`);
      await visitor.getByRole("heading", { name: "Sign in to Nacre" }).waitFor();
      await axe(visitor, `sign-in ${colorScheme}`);
      const page = await world.signedIn({ colorScheme, bypassCSP: true });
      const look = async (path, ready, name = path) => {
        await page.goto(`${world.url}${path}`);
        await page.locator(ready).first().waitFor({ timeout: 60_000 });
        await axe(page, `${name} ${colorScheme}`);
      };
      await look("/", ".session-link", "sessions");
      await page.getByRole("button", { name: "New session" }).click();
      await axe(page, `new session ${colorScheme}`);
      await look(`/sessions/${id}`, ".turn-end", "session");
      await page.locator(".tool-head").first().click();
      await axe(page, `session with a tool open ${colorScheme}`);
      for (const keys of ["Control+k", "?"]) {
        await page.locator("body").press(keys);
        await page.getByRole("dialog").waitFor();
        await axe(page, `${keys} ${colorScheme}`);
        await page.keyboard.press("Escape");
      }
      const panels = {
        terminal: ".screen",
        files: ".tree-item",
        changes: ".changed-head",
        services: ".list-item",
        preview: ".framed iframe",
        snapshots: ".kin-item",
        activity: ".timeline li",
        egress: ".egress",
      };
      for (const [panel, ready] of Object.entries(panels)) await look(`/sessions/${id}/${panel}`, ready, panel);
      await page.goto(`${world.url}/sessions/${id}/files`);
      await page.getByRole("button", { name: /notes\.md/ }).click();
      await page.getByLabel("Contents of notes.md").waitFor();
      await axe(page, `a file ${colorScheme}`);
      await look(`/compare/${id}/${fork.id}`, ".compare-side .changed-head", "compare");
      await page.goto(`${world.url}/settings/models`);
      await page.locator(".settings-nav a").nth(4).waitFor();
      const sections = await page.locator(".settings-nav a").evaluateAll((all) => all.map((one) => one.pathname));
      for (const section of sections) await look(section, ".settings-body h1");
      await page.context().close();
    }
    const phone = await world.signedIn({ viewport: { width: 390, height: 844 }, bypassCSP: true });
    for (const [path, ready] of [
      ["/", ".session-link"],
      [`/sessions/${id}`, ".turn-end"],
      [`/sessions/${id}/changes`, ".changed-head"],
      ["/settings/tokens", ".settings-body h1"],
    ]) {
      await phone.goto(`${world.url}${path}`);
      await phone.locator(ready).first().waitFor();
      await axe(phone, `phone ${path}`);
    }
  },

  "everything is reached by keyboard and palette": async (world) => {
    const id = await world.session(undefined, "Palette of pearls");
    const page = await world.signedIn();
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search commands and sessions").fill("palette pearls");
    await page.getByRole("option", { name: /Palette of pearls/ }).waitFor();
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
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await page.keyboard.press("n");
    await page.getByRole("dialog", { name: "New session" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  },

  "a terminal keeps its keys, and is left by one": async (world) => {
    const id = await world.session();
    const page = await world.signedIn();
    await page.goto(`${world.url}/sessions/${id}/terminal`);
    await page.locator(".screen[data-state=open]").waitFor();
    // To the beginning, and all that follows is cut: a shell's own meaning of the keys.
    await page.keyboard.type("echo never");
    await page.keyboard.press("Control+a");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("echo $((40+2))\n");
    await page.locator(".screen").getByText("42", { exact: true }).waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    await page.keyboard.press("Control+Shift+K");
    await page.getByRole("dialog", { name: "Commands" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".screen").click();
    await page.keyboard.press("Control+Shift+X");
    const place = () => page.evaluate(() => document.activeElement?.id);
    assert.equal(await place(), "tab-terminal");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).getByText("leave the terminal").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search commands and sessions").fill("new terminal");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "shell 2", pressed: true }).waitFor();
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
    const { page } = await longSession(world, 10_000, 1000);
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

  "a long past comes a little at a time, each message about once": async (world) => {
    const { page, asked } = await longSession(world, 10_000, 50);
    assert.ok(asked.length <= 2, `${asked.length} pages before anybody scrolled`);
    const rows = page.locator(".rows");
    await until(
      "the first line is there",
      async () => {
        await rows.evaluate((element) => {
          element.scrollTop = 0;
        });
        return (await page.getByText("Line 0 of many").count()) > 0;
      },
      60_000,
    );
    const fetched = asked.reduce((sum, count) => sum + count, 0);
    assert.ok(fetched < 2600, `${fetched} messages were fetched for 950`);
  },
};
