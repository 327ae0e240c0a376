/** The four pages: a column at the left, or tabs at the bottom of a narrow screen. */

import { type Page, type Route, hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { open } from "../state/chat";
import { settings } from "../state/settings";
import { Icon, type IconName } from "../ui/Icon";

const PAGES: readonly { page: Page; label: string; icon: IconName }[] = [
  { page: "chat", label: "Chat", icon: "chat" },
  { page: "runs", label: "Runs", icon: "runs" },
  { page: "models", label: "Models", icon: "models" },
  { page: "settings", label: "Settings", icon: "settings" },
];

export function Navigation({ current, className }: { current: Page; className: string }) {
  const conversation = useStore(open, (value) => value?.id ?? null);
  const pending = useStore(settings, (all) => (all?.pending_reload.length ?? 0) > 0);
  const routeOf = (page: Page): Route =>
    page === "chat"
      ? { page, id: current === "chat" ? null : conversation }
      : page === "runs"
        ? { page, id: null, compare: null }
        : { page };
  return (
    <nav className={className} aria-label="Pages">
      <ul>
        {PAGES.map(({ page, label, icon }) => (
          <li key={page}>
            <a href={hrefOf(routeOf(page))} aria-current={page === current ? "page" : undefined}>
              <Icon name={icon} />
              <span>{label}</span>
              {page === "settings" && pending && (
                <span className="nav-mark">
                  <span className="visually-hidden">, changes wait for a reload</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
