import { Store, useStore } from "../store";
import { Dialog } from "./dialog";

interface Asked {
  title: string;
  text: string;
  /** What the button says that does it. */
  deed: string;
  answer: (isSure: boolean) => void;
}

const asked = new Store<Asked | null>(null);

/** Before what cannot be undone. */
export function isSure(question: Omit<Asked, "answer">): Promise<boolean> {
  asked.get()?.answer(false);
  return new Promise((resolve) => {
    asked.set({
      ...question,
      answer: (isSure) => {
        asked.set(null);
        resolve(isSure);
      },
    });
  });
}

export function Confirm() {
  const open = useStore(asked);
  if (open === null) return null;
  return (
    <Dialog label={open.title} onClose={() => open.answer(false)}>
      <div className="dialog-body">
        <h2>{open.title}</h2>
        <p>{open.text}</p>
        <div className="actions">
          {/* biome-ignore lint/a11y/noAutofocus: who presses Enter without reading has done nothing. */}
          <button type="button" className="button" autoFocus onClick={() => open.answer(false)}>
            Cancel
          </button>
          <button type="button" className="button danger" onClick={() => open.answer(true)}>
            {open.deed}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
