// What is done in the pictures: a small fault in a list of things to do, found, mended and tested.

import { inWorkspace } from "./model.mjs";

export const TODO = `/** A list of things to do. */
export function add(list, text) {
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

const FAULT = `  list[at].done = true;
  return list;`;
const MENDED = `  return list.map((item, place) => (place === at ? { ...item, done: true } : item));`;
const COPIED = `  const copy = structuredClone(list);
  copy[at].done = true;
  return copy;`;

export const TEST = `import assert from "node:assert/strict";
import { test } from "node:test";
import { add, finish, open } from "../src/todo.js";

test("what is added is open", () => {
  assert.equal(open(add([], "water the plants")).length, 1);
});
`;

const NEW_TEST = `${TEST}
test("finishing leaves the list that was given as it is", () => {
  const before = add([], "water the plants");
  const after = finish(before, 0);
  assert.equal(before[0].done, false);
  assert.equal(after[0].done, true);
});
`;

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Things to do</title>
<style>
  body { margin: 0; background: #f6f4fb; color: #1d1b26; font: 16px/1.5 system-ui, sans-serif; }
  main { max-width: 420px; margin: 56px auto; padding: 28px; border-radius: 14px; background: #fff;
    box-shadow: 0 12px 40px rgb(40 30 90 / 12%); }
  h1 { margin: 0 0 4px; font-size: 22px; }
  p { margin: 0 0 18px; color: #6c6880; }
  li { display: flex; gap: 10px; padding: 9px 0; border-top: 1px solid #eceaf4; list-style: none; }
  ul { margin: 0; padding: 0; }
  .done { color: #9a96aa; text-decoration: line-through; }
</style>
<main>
  <h1>Things to do</h1>
  <p>Two of four are done</p>
  <ul>
    <li class="done">✓ Water the plants</li>
    <li class="done">✓ Answer the letter</li>
    <li>○ Mend the bicycle</li>
    <li>○ Call the harbour</li>
  </ul>
</main>
</html>
`;

const read = (path) => ({ tool: "read", args: { filePath: inWorkspace(path) } });
const bash = (command, description) => ({ tool: "bash", args: { command, description } });
const edit = (newString) => ({
  tool: "edit",
  args: { filePath: inWorkspace("pearl/src/todo.js"), oldString: FAULT, newString },
});
const write = (path, content) => ({ tool: "write", args: { filePath: inWorkspace(path), content } });

export const SCRIPTS = {
  "Finishing an item": [
    { say: "I look at `finish` first.", ...read("pearl/src/todo.js") },
    {
      say: "It writes into the item that it was given, so every holder of the list sees the change. I look what the tests say now.",
      ...bash("node --test 2>&1 | tail -9", "Run the tests"),
    },
    {
      say: "They pass, because none of them looks at the old list. I mend `finish` so that it makes a new one:",
      ...edit(MENDED),
    },
    { say: "And a test that would have found it:", ...write("pearl/test/todo.test.js", NEW_TEST) },
    { say: "", ...bash("node --test 2>&1 | tail -9", "Run the tests again") },
    {
      say: `\`finish\` returns a new list now and leaves the one it was given alone.

- **Cause:** it set \`done\` on the item itself, and the item was shared.
- **Change:** \`src/todo.js\` maps to a new list; only the finished item is copied.
- **Test:** \`test/todo.test.js\` holds the old list and the new one side by side.

Both tests pass. \`open\` and \`add\` never wrote into their list, so they stay as they are.`,
    },
  ],
  "with a copy": [
    { say: "I read it again, and try the other way.", ...read("pearl/src/todo.js") },
    {
      say: "Here the whole list is copied before it is changed.",
      tool: "edit",
      args: { filePath: inWorkspace("pearl/src/todo.js"), oldString: MENDED, newString: COPIED },
    },
    { say: "", ...bash("node --test 2>&1 | tail -9", "Run the tests") },
    {
      say: "It works, and the tests pass. It copies every item, also those that nobody touched: for long lists `map` is the better one.",
    },
  ],
  "Show the list": [
    { say: "I write the page.", ...write("site/index.html", PAGE) },
    {
      say: "Then I keep a server running for it.",
      tool: "nacre_services_start",
      args: { name: "site", command: "python3 -m http.server 3000 --directory site" },
    },
    { say: "", tool: "nacre_services_expose", args: { port: 3000 } },
    { say: "The page is on port 3000: the preview shows it." },
  ],
  "release notes": [
    {
      say: `## Pearl 2.4

The list keeps itself to itself: nothing that is given to it changes any more.

- **Finishing** an item returns a new list. Whoever held the old one still has it as it was.
- **Adding** is as before.
- Tests hold both side by side, so that it stays so.

Who relied on \`finish\` writing into its list has to take what it returns. There was one such place, in the export, and it is mended, too. What is left to do: the page still counts done items by itself, and could ask the list instead, which would make it a little shorter and take away the last place where both have to agree by hand.`,
      pace: 220,
    },
  ],
  "after a pearl": [
    {
      say: "I would call it *Akoya*, and ask before I rename the session.",
      ...bash(
        `nacre actions run --integration session --action rename --params '{"title":"Akoya, the next release"}'`,
        "Ask for the new name",
      ),
    },
  ],
  "time out": [
    { say: "I look for what takes long.", ...bash("ls && git log --oneline | head -3", "Look around") },
    { say: "The export asks for each item by itself. One request for all of them would do. Shall I change that?" },
  ],
};
