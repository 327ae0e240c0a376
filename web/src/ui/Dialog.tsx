/** The platform's own modal dialog: it keeps the focus inside and gives it back afterwards. */

import { type ReactNode, useEffect, useId, useRef } from "react";

import { Icon } from "./Icon";

interface Props {
  title: string;
  children: ReactNode;
  onClose: () => void;
  /** Without it there is no way out but to answer. */
  dismissable?: boolean;
  className?: string;
}

export function Dialog({ title, children, onClose, dismissable = true, className = "" }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog === null || dialog.open) return undefined;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dialog ${className}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        if (dismissable) onClose();
      }}
      onMouseDown={(event) => {
        if (dismissable && event.target === ref.current) onClose();
      }}
    >
      <div className="dialog-body">
        <header className="dialog-head">
          <h2 id={titleId}>{title}</h2>
          {dismissable && (
            <button type="button" className="icon-button" onClick={onClose} aria-label="Close">
              <Icon name="close" />
            </button>
          )}
        </header>
        {children}
      </div>
    </dialog>
  );
}
