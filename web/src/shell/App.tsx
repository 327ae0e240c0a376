/** The frame: navigation, what is wrong, and the page. */

import { Suspense, lazy, useEffect, useRef, useState } from "react";

import { ChatPage } from "../chat/ChatPage";
import { ConversationList } from "../chat/ConversationList";
import { type Route, hrefOf, useRoute } from "../lib/route";
import { useStore } from "../lib/store";
import { conversations } from "../state/chat";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { Mark } from "../ui/Mark";
import { ConfirmHost } from "../ui/confirm";
import { NoticeHost } from "../ui/notices";
import { Spinner } from "../ui/parts";
import { Banner } from "./Banner";
import { Boundary } from "./Boundary";
import { EngineStatus } from "./EngineStatus";
import { KeyPrompt } from "./KeyPrompt";
import { Navigation } from "./Navigation";
import { ThemeSwitch } from "./ThemeSwitch";

const SettingsPage = lazy(() => import("../settings/SettingsPage"));
const RunsPage = lazy(() => import("../runs/RunsPage"));
const RunPage = lazy(() => import("../runs/RunPage"));
const ComparePage = lazy(() => import("../runs/ComparePage"));
const ModelsPage = lazy(() => import("../models/ModelsPage"));

const TITLES = { chat: "Chat", runs: "Runs", models: "Models", settings: "Settings" };

export function App() {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const title = useTitle(route);

  useEffect(() => {
    document.title = title === "moestream" ? title : `${title} – moestream`;
  }, [title]);

  const place = route.page + ("compare" in route && route.compare !== null ? "/compare" : "");
  useEffect(() => {
    // A page that is opened begins at its top, for the keyboard as well.
    if (first.current) first.current = false;
    else main.current?.focus({ preventScroll: true });
  }, [place]);

  return (
    <>
      <a
        className="skip-link"
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the part behind "#" names the page
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <div className={`app on-${route.page}`}>
        <Sidebar route={route} />
        <TopBar route={route} title={title} />
        <main ref={main} id="main" tabIndex={-1}>
          <Banner told={route.page === "models" || (route.page === "chat" && route.id === null)} />
          <Boundary place={hrefOf(route)}>
            <Suspense fallback={<div className="centred"><Spinner label="Loading…" /></div>}>
              <Content route={route} />
            </Suspense>
          </Boundary>
        </main>
        <Navigation current={route.page} className="tab-bar" />
      </div>
      <KeyPrompt />
      <ConfirmHost />
      <NoticeHost />
    </>
  );
}

function Content({ route }: { route: Route }) {
  if (route.page === "chat") return <ChatPage id={route.id} />;
  if (route.page === "settings") return <SettingsPage />;
  if (route.page === "models") return <ModelsPage />;
  if (route.compare !== null) return <ComparePage ids={route.compare} />;
  return route.id === null ? <RunsPage /> : <RunPage key={route.id} id={route.id} />;
}

function Sidebar({ route }: { route: Route }) {
  return (
    <div className="sidebar">
      <a className="brand" href="#/chat">
        <Mark /> <span>moestream</span>
      </a>
      <Navigation current={route.page} className="side-nav" />
      <div className="sidebar-list">
        <ConversationList current={route.page === "chat" ? route.id : null} />
      </div>
      <div className="sidebar-foot">
        <EngineStatus />
        <ThemeSwitch />
      </div>
    </div>
  );
}

/** On narrow screens: what is open, and the way to the conversations. */
function TopBar({ route, title }: { route: Route; title: string }) {
  const [list, setList] = useState(false);
  return (
    <header className="top-bar">
      {route.page === "chat" ? (
        <button type="button" className="icon-button" aria-label="Conversations" onClick={() => setList(true)}>
          <Icon name="menu" />
        </button>
      ) : (
        <Mark size={26} />
      )}
      <span className="top-title">{title}</span>
      {route.page === "chat" && route.id !== null ? (
        <a className="icon-button" href="#/chat" aria-label="New chat">
          <Icon name="plus" />
        </a>
      ) : (
        <span />
      )}
      {list && (
        <Dialog title="Conversations" onClose={() => setList(false)} className="drawer">
          <ConversationList current={route.page === "chat" ? route.id : null} onPick={() => setList(false)} />
          <div className="sidebar-foot">
            <EngineStatus />
            <ThemeSwitch />
          </div>
        </Dialog>
      )}
    </header>
  );
}

function useTitle(route: Route): string {
  const id = route.page === "chat" ? route.id : null;
  const named = useStore(conversations, (all) => all?.find((head) => head.id === id)?.title ?? null);
  if (route.page === "chat") return named || (id === null ? "moestream" : "Chat");
  return TITLES[route.page];
}
