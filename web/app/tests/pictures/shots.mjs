// Pictures of the main views, light and dark, for the documentation: `npm run shots`. A script speaks for the
// model; everything else is real.

import { mkdirSync } from "node:fs";
import { until, World } from "../browser/world.mjs";
import { beginModel } from "./model.mjs";
import { SCRIPTS, TEST, TODO } from "./task.mjs";

const OUT = new URL("../../../../docs/screenshots/", import.meta.url).pathname;
mkdirSync(OUT, { recursive: true });

const rests = (world, id) =>
  until("the turn is over", async () => {
    const { items } = await world.call("GET", `/v1/sessions/${id}/messages`);
    return items.some((message) => message.role === "assistant" && message.done_at);
  });

const model = await beginModel(SCRIPTS);
const world = await World.begin(model.settings);
try {
  await world.tidy();
  const files = { "src/todo.js": TODO, "test/todo.test.js": TEST, "package.json": '{ "type": "module" }\n' };
  const pearl = world.forge.repository("acme/pearl", files);
  const reef = world.forge.repository("acme/reef", { "README.md": "# Reef\n" });
  const ask = "Finishing an item changes the list that everybody else holds. Find out why, mend it, and add a test.";
  const main = await world.session(ask, "Finish without changing the list", { repos: [{ url: pearl }] });
  await rests(world, main);
  const served = await world.session("Show the list as a page", "A page for the list", { repos: [{ url: reef }] });
  await rests(world, served);
  await world.call("POST", `/v1/sessions/${main}/snapshots`, { message: "mended, tests pass" });
  const fork = await world.call("POST", `/v1/sessions/${main}/fork`, { title: "The same, with a copy" });
  await world.call("POST", `/v1/sessions/${fork.id}/prompts`, { content: "Try it with a copy of the list instead." });
  await rests(world, fork.id);
  const slow = await world.session("Why does the export time out?", "Why does the export time out?", {
    repos: [{ url: pearl }],
  });
  await rests(world, slow);
  const build = await world.session(undefined, "Upgrade the build to Node 24", { repos: [{ url: reef }] });
  await world.call("POST", `/v1/sessions/${build}/pause`);
  const named = await world.session("Name the next release after a pearl", "A name for the next release", {
    repos: [{ url: reef }],
  });
  await until("it asks", async () => (await world.call("GET", `/v1/sessions/${named}`)).agent_state === "waiting");

  for (const colorScheme of ["light", "dark"]) {
    const late = await world.session("Write the release notes of 2.4", "Release notes of 2.4", {
      repos: [{ url: pearl }],
    });
    const page = await world.signedIn({ colorScheme, viewport: { width: 1280, height: 800 } });
    const shot = async (name) => {
      await page.waitForTimeout(400);
      await page.screenshot({ path: `${OUT}${name}-${colorScheme}.png` });
    };
    const to = (path) => page.goto(`${world.url}${path}`);
    await page.getByRole("link", { name: /Finish without/ }).waitFor();
    await shot("sessions");
    await to(`/sessions/${main}`);
    await page.locator(".turn-end").waitFor();
    await shot("session");
    await page.keyboard.press("Control+k");
    await page.getByRole("option").nth(8).waitFor();
    await shot("palette");
    await to(`/sessions/${main}/terminal`);
    await page.locator(".screen[data-state=open]").waitFor();
    await page.keyboard.type("clear; cd ~/workspace/pearl; git status -s; node --test 2>&1 | head -8\n");
    await page.locator(".turn-end").waitFor();
    await page.locator(".tool-head", { hasText: "edit" }).click();
    await page.waitForTimeout(2500);
    await page.locator(".rows").evaluate((rows) => rows.scrollTo(0, 0));
    await shot("terminal");
    await to(`/sessions/${main}/changes`);
    await page.locator(".changed-head", { hasText: "todo.js" }).click();
    await page
      .getByLabel(/^Changes of/)
      .first()
      .waitFor();
    await shot("changes");
    await to(`/sessions/${served}/preview`);
    await page.frameLocator(".framed iframe").getByRole("heading").waitFor();
    await shot("preview");
    await to(`/sessions/${served}/services`);
    await page.locator(".list-main", { hasText: "site" }).click();
    await page.getByLabel("Log of site").getByText(/GET/).first().waitFor();
    await shot("services");
    await to(`/sessions/${main}/editor`);
    await page
      .frameLocator(".framed iframe")
      .locator(".explorer-folders-view .monaco-list-row", { hasText: "pearl" })
      .click();
    await page.waitForTimeout(3000);
    await shot("editor");
    await to(`/sessions/${main}/files`);
    for (const name of ["pearl", "src", "todo.js"]) await page.locator(".tree-item", { hasText: name }).click();
    await page.getByLabel("Contents of pearl/src/todo.js").waitFor();
    await shot("files");
    await to(`/sessions/${main}/snapshots`);
    await page.locator(".kin .kin").first().waitFor();
    await shot("snapshots");
    await to(`/sessions/${main}/activity`);
    await page.locator(".timeline li[data-kind=tool]").nth(4).waitFor();
    await shot("activity");
    await to(`/compare/${main}/${fork.id}`);
    await page.locator(".compare-side .changed-head").first().waitFor();
    await shot("compare");
    await to("/settings/models");
    await page.locator(".card").first().waitFor();
    await shot("settings");
    await page.setViewportSize({ width: 390, height: 780 });
    await to(`/sessions/${late}`);
    await page.locator(".answer").first().waitFor();
    await shot("phone");
    await world.call("DELETE", `/v1/sessions/${late}`);
    await page.context().close();
  }
} finally {
  await world.end();
  model.end();
}
