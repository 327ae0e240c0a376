/** The chat: a conversation, the place to write, and the live panel beside it. */

import { useEffect, useState } from "react";

import { messageOf } from "../api/client";
import { go } from "../lib/route";
import { useStore } from "../lib/store";
import { LivePanel } from "../live/LivePanel";
import { LiveStrip } from "../live/LiveStrip";
import {
  ask,
  askAgain,
  conversations,
  createConversation,
  failure,
  open,
  openConversation,
  openError,
} from "../state/chat";
import { notify } from "../ui/notices";
import { Failed, Spinner } from "../ui/parts";
import { Composer } from "./Composer";
import { FailureView } from "./FailureView";
import { Thread } from "./Thread";
import { Welcome } from "./Welcome";

export function ChatPage({ id }: { id: string | null }) {
  const conversation = useStore(open);
  const error = useStore(openError);
  const failed = useStore(failure);
  const title = useStore(
    conversations,
    (all) => all?.find((head) => head.id === id)?.title ?? null,
  );
  const [draft, setDraft] = useState("");
  const [panel, setPanel] = useState(false);

  useEffect(() => {
    void openConversation(id);
  }, [id]);

  async function send(text: string, thinking: boolean | null): Promise<void> {
    try {
      if (id === null) {
        const created = await createConversation();
        go({ page: "chat", id: created.id }, { replace: true });
      }
      await ask(text, thinking);
    } catch (problem) {
      setDraft(text);
      notify(messageOf(problem), "error");
    }
  }

  const here = failed !== null && failed.conversation === id ? failed : null;
  return (
    <div className="chat">
      <section className="chat-main" aria-label={title ?? "New conversation"}>
        <h1 className="visually-hidden">{title ?? "New conversation"}</h1>
        {error !== null && id !== null ? (
          <Failed message={error} retry={() => void openConversation(id)} />
        ) : id === null ? (
          <Welcome onPick={(text) => void send(text, null)} />
        ) : conversation === null ? (
          <div className="centred">
            <Spinner label="Opening the conversation…" />
          </div>
        ) : (
          <Thread conversation={conversation}>
            {here !== null && (
              <FailureView key={here.message} failure={here} onRetry={() => void askAgain(here)} />
            )}
          </Thread>
        )}
        <div className="chat-foot">
          <LiveStrip onOpen={() => setPanel(true)} />
          <Composer onAsk={send} draft={draft} onDraft={setDraft} />
        </div>
      </section>
      <LivePanel open={panel} onClose={() => setPanel(false)} />
    </div>
  );
}
