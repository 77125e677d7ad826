import { until } from "./world.mjs";

/** A page on a real session whose socket says what the test says; its record, too, where `record` is given. */
export async function scripted(world, frames, { record, ...init } = {}) {
  const id = await world.shared();
  const session = { ...(await world.call("GET", `/v1/sessions/${id}`)), ...record };
  const page = await world.signedIn();
  const heard = [];
  let socket;
  if (record) await page.route(`**/v1/sessions/${id}`, (route) => route.fulfill({ json: session }));
  await page.routeWebSocket(/\/connect/, (opened) => {
    socket = opened;
    opened.onMessage((text) => heard.push(JSON.parse(text)));
    opened.send(JSON.stringify({ type: "init", session, seq: 0, messages: [], questions: [], runtime: {}, ...init }));
    frames.forEach((frame, at) => {
      opened.send(JSON.stringify({ seq: at + 1, ...frame }));
    });
  });
  let seq = frames.length;
  const say = (frame) => {
    seq += 1;
    socket.send(JSON.stringify({ seq, ...frame }));
  };
  await page.goto(`${world.url}/sessions/${id}`);
  await until("the page listens", () => socket !== undefined);
  return { page, heard, say, id };
}
