// Keys that work everywhere, and a list of all of them.

import { Fragment, useEffect } from "react";
import { useMayChange } from "./rights";
import { Store, useStore } from "./store";
import { Dialog } from "./ui/dialog";

const isOpen = new Store(false);

export function openKeys(): void {
  isOpen.set(true);
}

export const MAIN_KEY = /Mac/.test(navigator.userAgent) ? "⌘" : "Ctrl";

/** Those with a third word are for whoever may change something. */
type Key = readonly [string, string, "changes"?];

const GROUPS: readonly { name: string; keys: readonly Key[] }[] = [
  {
    name: "Everywhere",
    keys: [
      [`${MAIN_KEY} K`, "commands and sessions"],
      [`${MAIN_KEY} Shift K`, "the same, also inside a terminal or an editor"],
      ["Ctrl Shift X", "leave the terminal or the editor, to its tab"],
      ["?", "these keys"],
      ["Escape", "close what is open"],
    ],
  },
  {
    name: "In the list of sessions",
    keys: [
      ["/", "search"],
      ["j k", "down, up"],
      ["Enter", "open"],
      ["n", "new session", "changes"],
    ],
  },
  {
    name: "In a conversation",
    keys: [
      ["Enter", "send, or queue while a turn runs", "changes"],
      ["Shift Enter", "new line", "changes"],
      ["Alt Enter", "into the turn that is under way", "changes"],
      ["Escape", "cancel the turn", "changes"],
    ],
  },
  {
    name: "Beside it",
    keys: [
      ["← →", "on the tabs: the panel before, the one after"],
      ["← →", "on the bar between: narrower, wider"],
      [`${MAIN_KEY} S`, "in the editor: save", "changes"],
    ],
  },
];

/** What takes every key for itself: there, only what has a second modifier is ours. */
export function isTakenBy(event: Event): boolean {
  return event
    .composedPath()
    .some((place) => place instanceof Element && place.matches(".screen, .code-host, .merge-host"));
}

export function isTyping(event: Event): boolean {
  const place = event.target;
  return place instanceof HTMLElement && (place.matches("input, textarea, select") || place.isContentEditable);
}

export function Keys() {
  const open = useStore(isOpen);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "x" && isTakenBy(event)) {
        event.preventDefault();
        event.stopPropagation();
        document.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus();
      } else if (event.key === "?" && !isTyping(event) && !isTakenBy(event)) {
        event.preventDefault();
        isOpen.set(true);
      }
    };
    addEventListener("keydown", onKey, true);
    return () => removeEventListener("keydown", onKey, true);
  }, []);
  const isMember = useMayChange();
  if (!open) return null;
  const groups = GROUPS.map(({ name, keys }) => ({
    name,
    keys: keys.filter(([, , changes]) => isMember || changes === undefined),
  })).filter(({ keys }) => keys.length > 0);
  return (
    <Dialog label="Keys" onClose={() => isOpen.set(false)}>
      <div className="dialog-body">
        <h2>Keys</h2>
        <div className="keys">
          {groups.map((group) => (
            <section key={group.name}>
              <h3 className="section-name">{group.name}</h3>
              <dl>
                {group.keys.map(([keys, what]) => (
                  <Fragment key={`${keys}-${what}`}>
                    <dt>
                      {keys.split(" ").map((key) => (
                        <kbd key={key}>{key}</kbd>
                      ))}
                    </dt>
                    <dd>{what}</dd>
                  </Fragment>
                ))}
              </dl>
            </section>
          ))}
        </div>
        <div className="actions">
          <button type="button" className="button" onClick={() => isOpen.set(false)}>
            Close
          </button>
        </div>
      </div>
    </Dialog>
  );
}
