/** Line icons on a grid of 24, drawn for this app. They decorate: the words are beside them. */

const PATHS = {
  chat: "M4 6.5A2.5 2.5 0 0 1 6.5 4h11A2.5 2.5 0 0 1 20 6.5v7a2.5 2.5 0 0 1-2.5 2.5H11l-4.5 4v-4A2.5 2.5 0 0 1 4 13.5z",
  runs: "M4 19h16M6.5 19v-6M11 19V9M15.5 19v-8.5M20 19V5",
  models: "M12 3.5l8 4.25-8 4.25-8-4.25zM4 12l8 4.25L20 12M4 16.25l8 4.25 8-4.25",
  settings: "M4 7h9M17.5 7H20M4 17h3M11.5 17H20M15.25 4.75v4.5M9.25 14.75v4.5",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5.5M6 11.5l6-6 6 6",
  stop: "M7.5 7.5h9v9h-9z",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M14.5 5.5l4 4L9 19H5v-4zM12.5 7.5l4 4",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  trash: "M5 7h14M9.5 7V4.5h5V7M7 7l.8 12.5h8.4L17 7M10.5 10.5v5.5M13.5 10.5v5.5",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h10",
  pulse: "M3 12h4l2.5-6 4 12 2.5-6h5",
  down: "M12 5v13.5M6 12.5l6 6 6-6",
  chevron: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  upload: "M12 15.5V4.5M7 9l5-5 5 5M5 20h14",
  compare: "M8 4v16M16 4v16M3 9l5-5 5 5M11 15l5 5 5-5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1",
  moon: "M19.5 14.2A7.8 7.8 0 0 1 9.8 4.5a7.8 7.8 0 1 0 9.7 9.7z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  warning: "M12 4l9 16H3zM12 10v4.5M12 17.2v.01",
  info: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM12 11v5.5M12 7.8v.01",
  key: "M14.5 4a5.5 5.5 0 1 1-4.9 8L4 17.5V20h3v-2h2v-2h2l1.6-1.6M16.5 8v.01",
  thought: "M9 18.5h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.6.4 1 1.1 1 1.9v.2h5v-.2c0-.8.4-1.5 1-1.9A6 6 0 0 0 12 3z",
  search: "M11 4.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM16 16l4 4",
  power: "M12 4v8M7 6.8a7 7 0 1 0 10 0",
  reload: "M5 12a7 7 0 0 1 12-4.9L19 9M19 4v5h-5M19 12a7 7 0 0 1-12 4.9L5 15M5 20v-5h5",
  minus: "M6 12h12",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 20 }: { name: IconName; size?: number }) {
  const dotted = name === "more";
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill={name === "stop" ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth={dotted ? 2.6 : 1.7}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
