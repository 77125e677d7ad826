// A session from its first prompt to its end.
//
//   node examples/follow.mjs URL TOKEN "What is here?"
//
// Node 22 or newer; on Node 20, give `webSocket` as the README says.

import { Client, isOver } from "../build/src/index.js";

const [url, token, content = "What is here?"] = process.argv.slice(2);
if (url === undefined || token === undefined) {
  console.error('usage: node examples/follow.mjs URL TOKEN ["prompt"]');
  process.exit(2);
}

const client = new Client({ url, token });
const { id } = await client.createSession({ title: "An example", start: true });
let told = 0;
await new Promise((resolve, reject) => {
  const session = client.follow(id, {
    onUpdate(update) {
      if (update.type === "refused") return reject(update.error);
      if (update.type === "offline") return console.error(`(${update.why}; again in ${update.againInMs} ms)`);
      const { messages, prompts } = session.transcript;
      const text = messages.filter((message) => message.role === "assistant").map((message) => message.text).join("");
      process.stdout.write(text.slice(told));
      told = Math.max(told, text.length);
      if (prompts.some((prompt) => prompt.id === prompted && isOver(prompt.status))) {
        session.close();
        resolve();
      }
    },
  });
  const prompted = session.prompt({ content });
});
console.log();
console.log("snapshot", (await client.createSnapshot(id)).snapshot);
console.log("paused", (await client.pause(id)).receipt?.kept);
console.log("resumed", (await client.resume(id)).client_status);
console.log("stopped", (await client.stop(id)).client_status);
