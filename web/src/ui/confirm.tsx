/** "Are you sure?" as a promise, so that the code which asks reads from top to bottom. */

import { createStore, useStore } from "../lib/store";
import { Dialog } from "./Dialog";

interface Question {
  title: string;
  text: string;
  action: string;
  answer: (yes: boolean) => void;
}

const question = createStore<Question | null>(null);

export function confirm(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    question.get()?.answer(false);
    question.set({
      title,
      text,
      action,
      answer(yes) {
        question.set(null);
        resolve(yes);
      },
    });
  });
}

export function ConfirmHost() {
  const asked = useStore(question);
  if (asked === null) return null;
  return (
    <Dialog key={asked.title} title={asked.title} onClose={() => asked.answer(false)}>
      <p className="dialog-text">{asked.text}</p>
      <div className="dialog-actions">
        <button type="button" className="button" onClick={() => asked.answer(false)} autoFocus>
          Cancel
        </button>
        <button type="button" className="button danger" onClick={() => asked.answer(true)}>
          {asked.action}
        </button>
      </div>
    </Dialog>
  );
}
