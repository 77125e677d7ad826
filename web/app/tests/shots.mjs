// Pictures of the main views, light and dark, for the documentation: `npm run shots`.

import { mkdirSync } from "node:fs";
import { until, World } from "./browser/world.mjs";

const OUT = new URL("../../../docs/screenshots/", import.meta.url).pathname;
mkdirSync(OUT, { recursive: true });

const TODO = `export function add(list, text) {
  return [...list, { text, done: false }];
}

export function finish(list, at) {
  list[at].done = true;
  return list;
}

export function open(list) {
  return list.filter((item) => !item.done);
}
`;
const BETTER = TODO.replace(
  `  list[at].done = true;
  return list;`,
  `  return list.map((item, place) => (place === at ? { ...item, done: true } : item));`,
);

async function write(world, id, path, text) {
  await fetch(`${world.api}/v1/sessions/${id}/files?path=${encodeURIComponent(path)}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${world.token}`, "content-type": "application/octet-stream" },
    body: text,
  });
}

const rests = (world, id) =>
  until("the turn is over", async () => {
    const { items } = await world.call("GET", `/v1/sessions/${id}/messages`);
    return items.some((message) => message.role === "assistant" && message.done_at);
  });

const world = await World.begin();
try {
  const pearl = world.forge.repository("acme/pearl", { "src/todo.js": TODO, "README.md": "# Pearl\n" });
  const reef = world.forge.repository("acme/reef", { "README.md": "# Reef\n" });
  const main = await world.session("look around and say hello", "Show the list of todos", { repos: [{ url: pearl }] });
  const served = await world.session("serve the page", "A page for the list");
  for (const id of [main, served]) await rests(world, id);
  await world.call("POST", `/v1/sessions/${main}/snapshots`, { message: "the page works" });
  const fork = await world.call("POST", `/v1/sessions/${main}/fork`, { title: "Finish without changing the list" });
  await world.call("POST", `/v1/sessions/${fork.id}/prompts`, { content: "run node --version" });
  await until("the fork answers", async () => {
    const { items } = await world.call("GET", `/v1/sessions/${fork.id}/messages`);
    return items.filter((message) => message.role === "assistant" && message.done_at).length > 0;
  });
  await write(world, fork.id, "pearl/src/todo.js", BETTER);
  await write(world, main, "pearl/src/todo.js", TODO.replace("!item.done", "item.done !== true"));
  for (const [title, url] of [
    ["Upgrade the build to Node 24", reef],
    ["Why does the export time out?", pearl],
    ["Flaky test: upload of large files", reef],
  ]) {
    const id = await world.session("hello", title, { repos: [{ url }] });
    await rests(world, id);
    if (title.startsWith("Up")) await world.call("POST", `/v1/sessions/${id}/pause`);
  }
  const late = await world.session("slow 400", "Write the release notes", { repos: [{ url: pearl }] });

  for (const colorScheme of ["light", "dark"]) {
    const page = await world.signedIn({ colorScheme, viewport: { width: 1280, height: 800 } });
    const shot = async (name) => {
      await page.waitForTimeout(400);
      await page.screenshot({ path: `${OUT}${name}-${colorScheme}.png` });
    };
    const to = (path) => page.goto(`${world.url}${path}`);
    await page.getByRole("link", { name: /Show the list/ }).waitFor();
    await shot("sessions");
    await page.keyboard.press("Control+k");
    await page.getByLabel("Search commands and sessions").fill("s");
    await shot("palette");
    await to(`/sessions/${main}/terminal`);
    await page.locator(".screen[data-state=open]").waitFor();
    await page.keyboard.type("clear; git -C pearl log --oneline; ls --color pearl/src; node --version\n");
    await page.locator(".turn-end").waitFor();
    await page.locator(".tool-head", { hasText: "write" }).click();
    await page.locator(".rows").evaluate((rows) => rows.scrollTo(0, 0));
    await shot("session");
    await to(`/sessions/${fork.id}/changes`);
    await page.locator(".changed-head", { hasText: "todo.js" }).click();
    await page
      .getByLabel(/^Changes of/)
      .first()
      .waitFor();
    await shot("changes");
    await to(`/sessions/${served}/preview`);
    await page.frameLocator(".framed iframe").getByRole("heading").waitFor();
    await shot("preview");
    await to(`/sessions/${main}/files`);
    for (const name of ["pearl", "src", "todo.js"]) await page.locator(".tree-item", { hasText: name }).click();
    await page.getByLabel("Contents of pearl/src/todo.js").waitFor();
    await shot("files");
    await to(`/sessions/${main}/snapshots`);
    await page.locator(".kin .kin").first().waitFor();
    await shot("snapshots");
    await to(`/sessions/${main}/activity`);
    await page.locator(".timeline li[data-kind=tool]").first().waitFor();
    await shot("activity");
    await to(`/compare/${main}/${fork.id}`);
    await page.locator(".compare-side .changed-head").first().waitFor();
    for (const head of await page.locator(".compare-side .changed-head").all()) await head.click();
    await shot("compare");
    await to("/settings/models");
    await page.locator(".card").first().waitFor();
    await shot("settings");
    await page.setViewportSize({ width: 390, height: 780 });
    await to(`/sessions/${late}`);
    await page.locator(".answer").first().waitFor();
    await shot("phone");
    await page.context().close();
  }
} finally {
  await world.end();
}
