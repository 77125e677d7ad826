// A model that says what the pictures need, word by word: the agent, the tools and the sandboxes are real.

import { createServer } from "node:http";

const WORKSPACE = "/home/user/workspace";

/** `scripts`: by a few words of the prompt, what is said and which tool is called after each answer. */
export async function beginModel(scripts) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (bytes) => {
      body += bytes;
    });
    request.on("end", () => void answer(JSON.parse(body || "{}"), scripts, response));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}/v1`;
  return {
    settings: {
      NACRE_MODELS__DEFAULT: "script/scripted",
      // As settings are written in the environment.
      NACRE_MODELS__CUSTOM: `[{id="script",name="Script",url="${url}",models=["scripted"]}]`,
      NACRE_MODELS__PRICES: '[{provider="script",model="scripted",input=3000000,output=15000000}]',
    },
    end: () => server.close(),
  };
}

export const inWorkspace = (path) => `${WORKSPACE}/${path}`;

async function answer(request, scripts, response) {
  const messages = request.messages ?? [];
  const step = request.tools?.length ? next(messages, scripts) : { say: "Todos" };
  const prompt_tokens = Math.round(JSON.stringify(messages).length / 4);
  const completion_tokens = Math.round((step.say.length + JSON.stringify(step.args ?? "").length) / 4);
  const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
  const reason = step.tool ? "tool_calls" : "stop";
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (choice, more = {}) => {
    const chunk = {
      id: "c",
      object: "chat.completion.chunk",
      created: 0,
      model: "scripted",
      choices: [choice],
      ...more,
    };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  for (const word of step.say.split(/(?<=\s)/)) {
    send({ index: 0, delta: { role: "assistant", content: word } });
    await new Promise((resolve) => setTimeout(resolve, step.pace ?? 8));
  }
  if (step.tool) {
    const call = {
      index: 0,
      id: `call_${messages.length}`,
      type: "function",
      function: { name: step.tool, arguments: JSON.stringify(step.args) },
    };
    send({ index: 0, delta: { tool_calls: [call] } });
  }
  send({ index: 0, delta: {}, finish_reason: reason });
  response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [], usage })}\n\n`);
  response.end("data: [DONE]\n\n");
}

/** By how many tools have answered since somebody spoke. */
function next(messages, scripts) {
  const spoken = messages.findLastIndex((message) => message.role === "user");
  const prompt = textOf(messages[spoken]?.content);
  const done = messages.slice(spoken).filter((message) => message.role === "tool").length;
  const script = Object.entries(scripts).find(([words]) => prompt.includes(words))?.[1];
  return script?.[done] ?? script?.at(-1) ?? { say: "Done." };
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("\n");
}
