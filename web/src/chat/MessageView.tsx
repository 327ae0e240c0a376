/** A message that is finished, with what can be done about it. */

import { memo, useState } from "react";

import type { Message } from "../api/types";
import { hrefOf } from "../lib/route";
import { answer, edit, retry } from "../state/chat";
import { PENDING_ID } from "../state/thread";
import { useStore } from "../lib/store";
import { Icon } from "../ui/Icon";
import { CopyButton } from "../ui/parts";
import { Growing } from "./Growing";
import { Markdown } from "./Markdown";
import { Thinking } from "./Thinking";
import { endNote, runOf, statLine } from "./stats";

export const MessageView = memo(function MessageView({ message }: { message: Message }) {
  return message.role === "user" ? <Question message={message} /> : <Reply message={message} />;
});

function Question({ message }: { message: Message }) {
  const [editing, setEditing] = useState(false);
  const busy = useStore(answer, (current) => current !== null);
  if (editing) {
    return (
      <li className="message question editing">
        <EditForm
          text={message.content}
          onCancel={() => setEditing(false)}
          onSend={(text) => {
            setEditing(false);
            void edit(message.id, text);
          }}
        />
      </li>
    );
  }
  return (
    <li className="message question">
      <h3 className="visually-hidden">You</h3>
      <div className="bubble">{message.content}</div>
      {message.id !== PENDING_ID && (
        <div className="message-actions">
          <CopyButton text={message.content} label="Copy question" />
          <button
            type="button"
            className="quiet-button"
            disabled={busy}
            aria-label="Edit question"
            title="Edit: the answers after it are replaced"
            onClick={() => setEditing(true)}
          >
            <Icon name="edit" size={16} />
          </button>
        </div>
      )}
    </li>
  );
}

function Reply({ message }: { message: Message }) {
  const busy = useStore(answer, (current) => current !== null);
  const note = endNote(message.state, message.stats);
  const numbers = statLine(message.stats);
  const run = runOf(message.stats);
  return (
    <li className="message reply">
      <h3 className="visually-hidden">Answer</h3>
      {message.reasoning !== null && message.reasoning.trim() !== "" && (
        <Thinking text={message.reasoning} active={false} />
      )}
      {message.content.trim() === "" ? (
        <p className="muted">No answer was written.</p>
      ) : (
        <Markdown text={message.content} />
      )}
      <div className="message-actions">
        <CopyButton text={message.content} label="Copy answer" />
        <button
          type="button"
          className="quiet-button"
          disabled={busy}
          aria-label="Try again"
          title="Try again"
          onClick={() => void retry(message.id)}
        >
          <Icon name="retry" size={16} />
        </button>
        <span className="message-stats num">
          {note !== null && <b>{note}</b>}
          {numbers.map((part) => (
            <span key={part}>{part}</span>
          ))}
          {run !== null && <a href={hrefOf({ page: "runs", id: run, compare: null })}>recorded run</a>}
        </span>
      </div>
    </li>
  );
}

function EditForm(props: { text: string; onSend: (text: string) => void; onCancel: () => void }) {
  const [text, setText] = useState(props.text);
  const empty = text.trim() === "";
  return (
    <form
      className="edit-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!empty) props.onSend(text.trim());
      }}
    >
      <Growing
        label="Edit question"
        value={text}
        onChange={setText}
        autoFocus
        onEnter={() => {
          if (!empty) props.onSend(text.trim());
        }}
        onEscape={props.onCancel}
      />
      <div className="edit-actions">
        <button type="button" className="button" onClick={props.onCancel}>
          Cancel
        </button>
        <button type="submit" className="button primary" disabled={empty}>
          Ask again
        </button>
      </div>
    </form>
  );
}
