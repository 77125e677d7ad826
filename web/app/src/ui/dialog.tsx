import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  label: string;
  onClose: () => void;
  className?: string;
  children: ReactNode;
}

/** Modal, by the browser's own means: focus stays inside, Escape closes. */
export function Dialog({ label, onClose, className = "", children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape is the key, and the browser's.
    <dialog
      ref={ref}
      className={`dialog ${className}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      {children}
    </dialog>
  );
}
