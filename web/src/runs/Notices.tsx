import { Icon } from "../ui/Icon";

/** What a reader has to know before the numbers. */
export function Notices({ notices }: { notices: readonly string[] }) {
  if (notices.length === 0) return null;
  return (
    <ul className="run-notices">
      {notices.map((notice) => (
        <li key={notice}>
          <Icon name="info" size={18} /> <span>{notice}</span>
        </li>
      ))}
    </ul>
  );
}
