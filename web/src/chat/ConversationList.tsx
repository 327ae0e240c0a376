/** The conversations, newest first, each to be opened, renamed or deleted. */

import { useState } from "react";

import type { ConversationHead } from "../api/types";
import { when } from "../lib/format";
import { go, hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { answer, conversations, deleteConversation, renameConversation } from "../state/chat";
import { Icon } from "../ui/Icon";
import { confirm } from "../ui/confirm";
import { attempt } from "../ui/notices";

export function ConversationList({ current, onPick }: { current: string | null; onPick?: () => void }) {
  const all = useStore(conversations);
  return (
    <div className="conversations">
      <a className="button new-chat" href={hrefOf({ page: "chat", id: null })} onClick={onPick}>
        <Icon name="plus" size={18} /> New chat
      </a>
      {all === null ? null : all.length === 0 ? (
        <p className="conversations-empty">Your conversations appear here. They stay on the server.</p>
      ) : (
        <nav aria-label="Conversations">
          <ul>
            {all.map((head) => (
              <Entry key={head.id} head={head} current={head.id === current} onPick={onPick} />
            ))}
          </ul>
        </nav>
      )}
    </div>
  );
}

function Entry(props: { head: ConversationHead; current: boolean; onPick: (() => void) | undefined }) {
  const { head, current } = props;
  const [renaming, setRenaming] = useState(false);
  const writing = useStore(answer, (running) => running?.conversation === head.id);
  const title = head.title || "New conversation";

  async function remove(): Promise<void> {
    const sure = await confirm("Delete this conversation?", `“${title}” and all its messages are gone for good.`, "Delete");
    if (!sure) return;
    await attempt(() => deleteConversation(head.id));
    if (current) go({ page: "chat", id: null }, { replace: true });
  }

  if (renaming) {
    return (
      <li className="conversation renaming">
        <RenameForm
          title={head.title}
          onDone={(name) => {
            setRenaming(false);
            if (name !== null && name !== head.title) void attempt(() => renameConversation(head.id, name));
          }}
        />
      </li>
    );
  }
  return (
    <li className={`conversation ${current ? "current" : ""}`}>
      <a
        href={hrefOf({ page: "chat", id: head.id })}
        aria-current={current ? "page" : undefined}
        onClick={props.onPick}
        title={title}
      >
        <span className="conversation-title">{title}</span>
        <span className="conversation-when">{writing ? "answering…" : when(head.updated)}</span>
      </a>
      <span className="conversation-actions">
        <button type="button" className="icon-button small" aria-label={`Rename ${title}`} onClick={() => setRenaming(true)}>
          <Icon name="edit" size={15} />
        </button>
        <button type="button" className="icon-button small" aria-label={`Delete ${title}`} onClick={() => void remove()}>
          <Icon name="trash" size={15} />
        </button>
      </span>
    </li>
  );
}

export function RenameForm({ title, onDone }: { title: string; onDone: (name: string | null) => void }) {
  const [name, setName] = useState(title);
  const done = (): void => onDone(name.trim() === "" ? null : name.trim());
  return (
    <form
      className="rename-form"
      onSubmit={(event) => {
        event.preventDefault();
        done();
      }}
    >
      <input
        className="input"
        aria-label="New name"
        value={name}
        maxLength={200}
        autoFocus
        onFocus={(event) => event.target.select()}
        onChange={(event) => setName(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone(null);
          }
        }}
        onBlur={done}
      />
    </form>
  );
}
