// What `nacre bench gateway` is measured beside: each line of the input goes to every client.
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

const server = createServer();
const sockets = new WebSocketServer({ server, perMessageDeflate: false });

let seq = 0;
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    seq += 1;
    const frame = Buffer.from(`{"seq":${seq},${line.slice(1)}`);
    for (const client of sockets.clients) client.send(frame, { binary: false });
  }
});
process.stdin.on("end", () => process.exit(0));

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`);
});
