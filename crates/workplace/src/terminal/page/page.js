// The terminal's page. It speaks ttyd's protocol with whoever served it: the first byte of a message
// says what it is. The other end keeps the screen; whoever comes back is shown it again.
import { Terminal } from './xterm.mjs';
import { FitAddon } from './addon-fit.mjs';

const OUTPUT = 0x30, TITLE = 0x31;
const KEYS = '0', SIZE = '1', PAUSE = '2', RESUME = '3';
// Bytes that wait to be drawn: from the first on the other end is asked to wait, to the second it
// goes on.
const MUCH = 512 * 1024, LITTLE = 64 * 1024;
// Seconds until the next try.
const WAITS = [1, 2, 5, 10, 30];
// How a shell that ended says good-bye.
const ENDED = 1000;

const notice = document.getElementById('notice');
const terminal = new Terminal({ cursorBlink: true, fontSize: 14, scrollback: 10000 });
const fit = new FitAddon();
const encoder = new TextEncoder(), decoder = new TextDecoder();

let socket = null, tries = 0, undrawn = 0, paused = false;

function say(text) {
  notice.textContent = text;
  notice.hidden = text === '';
}

function isOpen() {
  return socket !== null && socket.readyState === WebSocket.OPEN;
}

function size() {
  return JSON.stringify({ columns: terminal.cols, rows: terminal.rows });
}

function greeting() {
  return JSON.stringify({ AuthToken: '', columns: terminal.cols, rows: terminal.rows });
}

function send(kind, bytes) {
  if (!isOpen()) return;
  const message = new Uint8Array(bytes.length + 1);
  message[0] = kind.charCodeAt(0);
  message.set(bytes, 1);
  socket.send(message);
}

function draw(bytes) {
  undrawn += bytes.length;
  if (undrawn > MUCH && !paused) {
    paused = true;
    send(PAUSE, []);
  }
  terminal.write(bytes, () => {
    undrawn -= bytes.length;
    if (undrawn < LITTLE && paused) {
      paused = false;
      send(RESUME, []);
    }
  });
}

function connect() {
  const address = new URL('ws', location.href);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  address.search = address.hash = '';
  const ours = socket = new WebSocket(address, ['tty']);
  ours.binaryType = 'arraybuffer';
  ours.onopen = () => {
    tries = 0;
    paused = false;
    say('');
    ours.send(encoder.encode(greeting()));
  };
  ours.onmessage = ({ data }) => {
    const bytes = new Uint8Array(data);
    if (bytes[0] === OUTPUT) draw(bytes.subarray(1));
    else if (bytes[0] === TITLE) document.title = decoder.decode(bytes.subarray(1));
  };
  ours.onclose = ({ code, reason }) => {
    if (ours !== socket) return;
    socket = null;
    if (code === ENDED) {
      say(`${reason || 'The shell ended'}. Press Enter for a new one.`);
      return;
    }
    const wait = WAITS[Math.min(tries, WAITS.length - 1)];
    tries += 1;
    say(`Not connected${reason ? ` (${reason})` : ''}. Trying again in ${wait} s.`);
    setTimeout(connect, wait * 1000);
  };
}

terminal.loadAddon(fit);
terminal.open(document.getElementById('screen'));
fit.fit();
terminal.onData((text) => {
  if (isOpen()) send(KEYS, encoder.encode(text));
  else if (socket === null && text === '\r' && tries === 0) connect();
});
// What is no text: reports of the mouse in old encodings.
terminal.onBinary((text) => send(KEYS, Uint8Array.from(text, (c) => c.charCodeAt(0))));
terminal.onResize(() => send(SIZE, encoder.encode(size())));
new ResizeObserver(() => fit.fit()).observe(document.body);
terminal.focus();
connect();
