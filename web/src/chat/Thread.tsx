/** The messages, oldest first. It follows the answer down unless somebody has scrolled up. */

import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Conversation } from "../api/types";
import { useStore } from "../lib/store";
import { answer } from "../state/chat";
import { Icon } from "../ui/Icon";
import { AnswerView } from "./AnswerView";
import { MessageView } from "./MessageView";

const NEAR_PX = 60;

export function Thread({ conversation, children }: { conversation: Conversation; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const follow = useRef(true);
  const [away, setAway] = useState(false);
  const writing = useStore(answer, (current) => current?.conversation === conversation.id);

  function toEnd(): void {
    follow.current = true;
    setAway(false);
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }

  useLayoutEffect(toEnd, [conversation.id, writing]);

  useEffect(() => {
    const element = list.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      if (follow.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  return (
    <div
      ref={box}
      className="thread"
      tabIndex={0}
      role="region"
      aria-label="Messages"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        const near = scrollHeight - scrollTop - clientHeight < NEAR_PX;
        follow.current = near;
        setAway(!near);
      }}
    >
      <ol ref={list} className="messages">
        {conversation.messages.map((message) => (
          <MessageView key={message.id} message={message} />
        ))}
        <AnswerView conversation={conversation.id} />
        {children !== null && children !== false && <li className="message">{children}</li>}
      </ol>
      {away && (
        <button type="button" className="to-end" onClick={toEnd} aria-label="Go to the newest message">
          <Icon name="down" size={18} />
        </button>
      )}
    </div>
  );
}
