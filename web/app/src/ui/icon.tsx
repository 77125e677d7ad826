// Small pictures that say what a button does, drawn into the page: no font has them, and nothing is fetched.

const PATHS = {
  back: "M10 3.5 5.5 8l4.5 4.5",
  bolt: "M9 1.8 3.5 9H8l-1 5.2L12.5 7H8z",
  branch:
    "M5 4.8v6.4M5 11.2c0-3 6-2.4 6-5.4M5 4.8a1.4 1.4 0 1 0 0-.1zM5 12.6a1.4 1.4 0 1 0 0-.1zM11 5.2a1.4 1.4 0 1 0 0-.1z",
  check: "m3.5 8.4 3 3 6-6.6",
  close: "m4.2 4.2 7.6 7.6m0-7.6-7.6 7.6",
  command: "m3.5 5 3 3-3 3M8.5 11.5h4",
  down: "M8 3v9.5M4 8.7l4 4 4-4",
  external: "M9.5 2.8h3.7v3.7M13 3 7.8 8.2M11.4 9v3.4c0 .5-.3.8-.8.8H3.6c-.5 0-.8-.3-.8-.8v-7c0-.5.3-.8.8-.8H7",
  file: "M4 1.8h5l3 3v9.4H4zM8.8 2v3h3",
  fold: "m6 3.8 4.2 4.2L6 12.2",
  folder: "M1.8 4.2c0-.5.3-.8.8-.8h3.2l1.6 1.8h6c.5 0 .8.3.8.8v6c0 .5-.3.8-.8.8H2.6c-.5 0-.8-.3-.8-.8z",
  globe:
    "M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM1.8 8h12.4M8 1.8c-3.4 3.4-3.4 9 0 12.4 3.4-3.4 3.4-9 0-12.4z",
  keep: "M3 4.6h10v8.8H3zM2.2 2h11.6v2.6H2.2zM6.2 7.4h3.6",
  key: "M6.2 9.8a2.6 2.6 0 1 1 0-3.6L13 6.2v2.2h-1.6v1.8H9.6V8.4",
  keyboard: "M1.8 4.2h12.4v7.6H1.8zM4 6.7h.1m2.5 0h.1m2.5 0h.1m2.5 0h.1M5 9.4h6",
  model: "M8 2.2 13.2 5v6L8 13.8 2.8 11V5zM2.8 5 8 7.8 13.2 5M8 7.8v6",
  moon: "M13.2 9.6A5.7 5.7 0 0 1 6.4 2.8a5.7 5.7 0 1 0 6.8 6.8z",
  more: "M3.4 8h.1M8 8h.1m4.4 0h.1",
  pause: "M5.4 3.4v9.2m5.2-9.2v9.2",
  pencil: "m3 13 .6-2.8 7.3-7.3 2.2 2.2-7.3 7.3z",
  person: "M8 7.6a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2zM2.8 13.6c.8-5 9.6-5 10.4 0",
  play: "M5 3.2v9.6L12.6 8z",
  plus: "M8 3.2v9.6M3.2 8h9.6",
  reload: "M13 8a5 5 0 1 1-1.5-3.6M13 2.2v3h-3",
  search: "M7 11.4A4.4 4.4 0 1 0 7 2.6a4.4 4.4 0 0 0 0 8.8zm3.2-1.2 3.4 3.4",
  shield: "M8 1.8 13 3.6v4c0 3.2-2 5.4-5 6.6-3-1.2-5-3.4-5-6.6v-4z",
  sidebar: "M1.8 2.8h12.4v10.4H1.8zM9.4 2.8v10.4",
  spark: "M8 1.8v12.4M1.8 8h12.4M3.8 3.8l8.4 8.4m0-8.4-8.4 8.4",
  stop: "M4 4h8v8H4z",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.4v1.4m0 10.4v1.4M1.4 8h1.4m10.4 0h1.4M3.3 3.3l1 1m7.4 7.4 1 1m0-9.4-1 1m-7.4 7.4-1 1",
  trash: "M2.8 4.2h10.4M6 4.2V2.4h4v1.8M4.2 4.2l.6 9.4h6.4l.6-9.4",
  up: "M8 13V3.5M4 7.3l4-4 4 4",
  warn: "M8 2.2 14.4 13.4H1.6zM8 6.6v3m0 1.8v.1",
} as const;

export type IconName = keyof typeof PATHS;

/** Says nothing to who cannot see it: the words beside it do, or a label. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon-picture" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth={name === "more" ? 2.2 : 1.4}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
