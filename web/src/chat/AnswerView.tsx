/** The answer while it is written. Only this part is drawn anew with every frame. */

import { useEffect } from "react";

import { useStore } from "../lib/store";
import { answer } from "../state/chat";
import { connection, serverState } from "../state/server";
import { announce } from "../ui/notices";
import { Spinner } from "../ui/parts";
import { Markdown } from "./Markdown";
import { Thinking } from "./Thinking";

export function AnswerView({ conversation }: { conversation: string }) {
  const current = useStore(answer);
  const here = current?.conversation === conversation;
  useEffect(() => {
    if (!here) return undefined;
    announce("The answer is being written.");
    return () => announce("The answer is complete.");
  }, [here]);
  if (current === null || !here) return null;
  const { text, reasoning } = current;
  return (
    <li className="message reply running" aria-busy="true">
      <h3 className="visually-hidden">Answer</h3>
      {reasoning !== "" && <Thinking text={reasoning} active={text === ""} />}
      {text !== "" && <Markdown text={text} growing />}
      {text === "" && reasoning === "" && <Waiting />}
    </li>
  );
}

/** Why there is nothing yet. */
function Waiting() {
  const state = useStore(serverState);
  const link = useStore(connection);
  let why = "Reading the question…";
  if (link === "lost") why = "Waiting for the server…";
  else if (state !== null && state.phase !== "ready") why = "Waiting for the model…";
  else if (state !== null && state.queue.waiting > 0) why = "Waiting for a turn…";
  return <Spinner label={why} />;
}
