// The line between a browser and the server, which can be cut.

import { connect, createServer } from "node:net";

export class Wire {
  #open = new Set();
  #isCut = false;

  static async begin(to) {
    const wire = new Wire();
    wire.server = createServer((near) => wire.#join(near, to));
    await new Promise((resolve) => wire.server.listen(0, "127.0.0.1", resolve));
    wire.port = wire.server.address().port;
    wire.url = `http://nacre.localhost:${wire.port}`;
    return wire;
  }

  /** What is open breaks, and nothing new gets through. */
  cut() {
    this.#isCut = true;
    for (const socket of this.#open) socket.destroy();
  }

  mend() {
    this.#isCut = false;
  }

  end() {
    this.cut();
    this.server.close();
  }

  #join(near, to) {
    if (this.#isCut) return void near.destroy();
    const far = connect(to, "127.0.0.1");
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      this.#open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#open.delete(one);
        other.destroy();
      });
    }
  }
}
