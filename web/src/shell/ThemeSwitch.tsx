import { useId } from "react";

import { useStore } from "../lib/store";
import { Icon, type IconName } from "../ui/Icon";
import { type Theme, chooseTheme, theme } from "./theme";

const CHOICES: readonly { value: Theme; label: string; icon: IconName }[] = [
  { value: "system", label: "As the system", icon: "system" },
  { value: "light", label: "Light", icon: "sun" },
  { value: "dark", label: "Dark", icon: "moon" },
];

export function ThemeSwitch() {
  const current = useStore(theme);
  const name = useId();
  return (
    <fieldset className="theme-switch">
      <legend className="visually-hidden">Theme</legend>
      {CHOICES.map(({ value, label, icon }) => (
        <label key={value} className={value === current ? "on" : ""} title={label}>
          <input
            type="radio"
            name={name}
            value={value}
            aria-label={label}
            checked={value === current}
            onChange={() => chooseTheme(value)}
          />
          <Icon name={icon} size={17} />
        </label>
      ))}
    </fieldset>
  );
}
