// As much of a browser as the pure parts touch when they are loaded.

const target = new EventTarget();
Object.assign(globalThis, {
  location: { pathname: "/", origin: "http://nacre.localhost:7070", hash: "" },
  history: { pushState: () => {}, replaceState: () => {} },
  addEventListener: target.addEventListener.bind(target),
  removeEventListener: target.removeEventListener.bind(target),
});
